//! Statements on `render_leftover`.

use crate::codec::DbTime;
use crate::row::render::part::LeftoverRow;
use crate::statement::{One, statements};
use crate::tx::NewLeftover;

statements! {
    /// One that is there already stays as it is.
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

    /// Takes those that are due; nobody else does before `look_after`.
    fn render_leftover_take(now: DbTime, look_after: DbTime, limit: i64) -> Vec<LeftoverRow> {
        "with due as materialized (
             select render_id, epoch
             from render_leftover
             where look_after <= $1
             order by look_after
             limit $3
             {for update skip locked}
         )
         update render_leftover
         set look_after = $2
         where (render_id, epoch) in (select render_id, epoch from due)
         returning render_id, epoch, nexrender_job_id, staged_path, slot, file, since"
    }

    fn render_leftover_keep(id: i64, epoch: i64, look_after: DbTime) -> u64 {
        "update render_leftover
         set look_after = $3
         where render_id = $1
           and epoch = $2"
    }

    fn render_leftover_delete(id: i64, epoch: i64) -> u64 {
        "delete from render_leftover
         where render_id = $1
           and epoch = $2"
    }

    fn render_leftover_count() -> One<i64> {
        "select count(*) from render_leftover"
    }
}
