-- Nothing: here nobody can choose the number of an event, because it is generated always. SQLite has a trigger for it.
select 1;
