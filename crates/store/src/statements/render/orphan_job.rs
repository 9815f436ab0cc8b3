//! Statements on `render_leftover` and `render_worker`.

use crate::render::{OrphanJob, WorkerBeat, WorkerRecord};
use crate::statement::{One, statements};
use crate::tx::NewLeftover;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::RenderId;
use tidemill_domain::time::Timestamp;

fn micros(took: Duration) -> i64 {
    i64::try_from(took.as_micros()).unwrap_or(i64::MAX)
}

statements! {
    /// Keeps an existing row.
    fn render_leftover_insert(row: &NewLeftover<'_>) -> () {
        bind(
            row.render_id, row.epoch, row.nexrender_job_id, row.staged_path, row.slot, row.file, row.since,
            row.look_after,
        )
        "insert into render_leftover
             (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (render_id, epoch) do nothing"
    }

    /// Takes due jobs and reserves them until `look_after`.
    fn render_leftover_take(now: Timestamp, look_after: Timestamp, limit: u32) -> Vec<OrphanJob> {
        "with due as materialized (
             select render_id, epoch
             from render_leftover
             where look_after <= $1
             order by look_after
             limit $3
             {for update skip locked}
         )
         update render_leftover set look_after = $2
         where (render_id, epoch) in (select render_id, epoch from due)
         returning render_id, epoch, nexrender_job_id, staged_path, slot, file, since"
    }

    fn render_leftover_keep(id: RenderId, epoch: Epoch, look_after: Timestamp) -> u64 {
        "update render_leftover set look_after = $3 where render_id = $1 and epoch = $2"
    }

    fn render_leftover_delete(id: RenderId, epoch: Epoch) -> u64 {
        "delete from render_leftover where render_id = $1 and epoch = $2"
    }

    fn render_leftover_count() -> One<i64> {
        "select count(*) from render_leftover"
    }

    fn render_worker_save(beat: &WorkerBeat<'_>, now: Timestamp) -> () {
        bind(
            beat.process, beat.name, beat.capacity, beat.in_flight,
            beat.state.as_str(), now, beat.farm.map(micros), beat.copy.map(micros),
        )
        "insert into render_worker (process, name, capacity, in_flight, state, seen_at, farm_micros, copy_micros)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (process) do update
         set name = excluded.name, capacity = excluded.capacity, in_flight = excluded.in_flight,
             state = excluded.state, seen_at = excluded.seen_at, farm_micros = excluded.farm_micros,
             copy_micros = excluded.copy_micros"
    }

    pub fn Renders::forget_worker(process: ProcessId) -> () {
        "delete from render_worker where process = $1"
    }

    /// Not seen since `before`.
    fn render_worker_prune(before: Timestamp) -> () {
        "delete from render_worker where seen_at < $1"
    }

    fn render_worker_list(since: Timestamp) -> Vec<WorkerRecord> {
        "select process, name, capacity, in_flight, state, seen_at, farm_micros, copy_micros
         from render_worker where seen_at >= $1 order by name, process"
    }
}
