-- SQLite has no adopted tables: it cannot compute a slot inside of an index. The number is that of PostgreSQL.
select 1;
