-- How many units were requested of each pool, ever. The usage has the last reading of each step, so the difference of two
-- readings is what was requested between them. It is null in steps that an older program wrote.
alter table tidemill_pool add column requested integer not null default 0;

alter table tidemill_pool_usage add column requested integer;

-- The last run of the command `on_demand` of each pool.
create table tidemill_pool_demand_run (
    pool text primary key not null references tidemill_pool (name) on delete cascade,
    direction text not null check (direction in ('up', 'down')),
    units integer not null check (units >= 0),
    at integer not null,
    succeeded integer not null check (succeeded in (0, 1))
) strict, without rowid;
