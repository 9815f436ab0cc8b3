-- How many units were requested of each pool, ever. The usage has the last reading of each step, so the difference of two
-- readings is what was requested between them. It is null in steps that an older program wrote.
alter table tidemill_pool add column requested bigint not null default 0;

alter table tidemill_pool_usage add column requested bigint;

-- The last run of the command `on_demand` of each pool.
create table tidemill_pool_demand_run (
    pool text primary key references tidemill_pool (name) on delete cascade,
    direction text not null check (direction in ('up', 'down')),
    units bigint not null check (units >= 0),
    at timestamptz not null,
    succeeded boolean not null
);
