-- What was set about a pool and when, which a graph of its usage needs: few of the many records of a log.
create index tidemill_pool_log_configured on tidemill_pool_log (pool, at) where kind = 'configured';
