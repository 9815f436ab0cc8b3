//! Statements on `render_worker`.

use crate::codec::{DbId, DbTime};
use crate::row::render::part::WorkerRow;
use crate::statement::statements;

statements! {
    fn render_worker_save(row: &WorkerRow) -> () {
        bind(
            row.process, &row.name, row.capacity, row.in_flight, &row.state, row.seen_at, row.farm_micros,
            row.copy_micros,
        )
        "insert into render_worker (process, name, capacity, in_flight, state, seen_at, farm_micros, copy_micros)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (process) do update
         set name = excluded.name, capacity = excluded.capacity, in_flight = excluded.in_flight,
             state = excluded.state, seen_at = excluded.seen_at, farm_micros = excluded.farm_micros,
             copy_micros = excluded.copy_micros"
    }

    fn render_worker_delete(process: DbId) -> () {
        "delete from render_worker where process = $1"
    }

    /// Forgets those that have not been heard of since `before`.
    fn render_worker_prune(before: DbTime) -> () {
        "delete from render_worker where seen_at < $1"
    }

    fn render_worker_list(since: DbTime) -> Vec<WorkerRow> {
        "select process, name, capacity, in_flight, state, seen_at, farm_micros, copy_micros
         from render_worker
         where seen_at >= $1
         order by name, process"
    }
}
