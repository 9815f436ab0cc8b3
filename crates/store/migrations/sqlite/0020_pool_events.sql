-- The sentence for the list of recent events, null for records that have none: few of the many records of a log. Older
-- records get one if their kind says enough. Downgrades and waits of older records are not listed, because that would
-- need their tickets.
alter table tidemill_pool_log add column summary text;

update tidemill_pool_log
set summary = case
    when kind = 'configured' then
        pool || case when event like '%"paused":null%' then ' changed' else ' paused' end
    when kind = 'doubted' then coalesce(dag_id, '?') || ' is silent; its units still count'
    when kind = 'confirmed' then coalesce(dag_id, '?') || ' is back'
    when event like '%"end":{"by_operator"%' then coalesce(dag_id, '?') || ' was released by an operator'
    when event like '%"end":"by_probe"%' then
        coalesce(dag_id, '?') || ' was released, because the probe found none of its sessions'
    when event like '%"end":"unclaimed"%' then coalesce(dag_id, '?') || ' did not claim its units in time'
    when event like '%"end":"held_too_long"%' then
        coalesce(dag_id, '?') || ' held its units for too long, so they were taken back'
    when event like '%"end":"stopped_asking"%' then
        coalesce(dag_id, '?') || ' stopped polling and left the queue'
    when event like '%"end":"exceeds_pool"%' then
        coalesce(dag_id, '?') || ' left the queue, because the pool became too small for it'
    when event like '%"end":"pool_removed"%' then coalesce(dag_id, '?') || ' ended with its pool'
end
where kind in ('configured', 'doubted', 'confirmed')
   or (kind = 'ended' and event not like '%"end":{"released"%' and event not like '%"end":"gave_up"%');

create index tidemill_pool_log_summary on tidemill_pool_log (pool, version, seq) where summary is not null;

create index tidemill_pool_log_summary_at on tidemill_pool_log (at, version, seq) where summary is not null;
