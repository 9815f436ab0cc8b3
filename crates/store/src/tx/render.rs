//! Statements on renders, on what hangs on them, and on what is known of compositions.

use super::{Answer, Connection, Tx};
use crate::codec::{DbId, DbTime};
use crate::row::render::RenderRow;
use crate::row::render::part::{
    AttemptRow, DataRow, FieldMappingRow, LeftoverRow, ProfileRow, StandingRow, TransitionRow, WorkerRow,
};
use crate::{postgres, sqlite};
use tidemill_domain::lease::Fence;
use tidemill_domain::render::RenderId;

impl Tx {
    pub(crate) async fn render_insert(&mut self, row: &NewRenderRow<'_>) -> Answer<Option<i64>> {
        on_either!(self, render::queue::insert(row))
    }

    pub(crate) async fn render_find_same(&mut self, cue_item: &str, hash: &str) -> Answer<Option<i64>> {
        on_either!(self, render::queue::find_same(cue_item, hash))
    }

    pub(crate) async fn render_lock(&mut self, id: i64) -> Answer<Option<RenderRow>> {
        on_either!(self, render::queue::lock(id))
    }

    pub(crate) async fn render_find(&mut self, id: i64) -> Answer<Option<RenderRow>> {
        on_either!(self, render::queue::find(id))
    }

    pub(crate) async fn render_lock_waiting(&mut self, now: DbTime, limit: i64) -> Answer<Vec<RenderRow>> {
        on_either!(self, render::queue::lock_waiting(now, limit))
    }

    pub(crate) async fn render_lock_lapsed(&mut self, now: DbTime, limit: i64) -> Answer<Vec<RenderRow>> {
        on_either!(self, render::queue::lock_lapsed(now, limit))
    }

    pub(crate) async fn render_save(&mut self, saving: &Saving<'_>) -> Answer<u64> {
        on_either!(self, render::save::save(saving))
    }

    pub(crate) async fn render_save_claimed(
        &mut self,
        rows: &[ClaimedRow],
        takeover: Takeover<'_>,
    ) -> Answer<u64> {
        on_either!(self, render::save::save_claimed(rows, takeover))
    }

    pub(crate) async fn render_set_aside(
        &mut self,
        id: i64,
        code: &str,
        why: &str,
        now: DbTime,
    ) -> Answer<()> {
        on_either!(self, render::save::set_aside(id, code, why, now))
    }

    pub(crate) async fn render_renew(
        &mut self,
        held: &[(RenderId, Fence)],
        renewed: Renewed,
    ) -> Answer<Vec<i64>> {
        on_either!(self, render::save::renew(held, renewed))
    }

    pub(crate) async fn render_list(
        &mut self,
        filter: &RenderFilterRow<'_>,
        before: i64,
        limit: i64,
    ) -> Answer<Vec<RenderRow>> {
        on_either!(self, render::queue::list(filter, before, limit))
    }

    pub(crate) async fn render_floor(
        &mut self,
        status: Option<&str>,
        before: i64,
        skipped: i64,
    ) -> Answer<Option<i64>> {
        on_either!(self, render::queue::floor(status, before, skipped))
    }

    pub(crate) async fn render_list_at_work(&mut self, limit: i64) -> Answer<Vec<RenderRow>> {
        on_either!(self, render::queue::list_at_work(limit))
    }

    pub(crate) async fn render_list_waiting(&mut self, limit: i64) -> Answer<Vec<RenderRow>> {
        on_either!(self, render::queue::list_waiting(limit))
    }

    pub(crate) async fn render_list_ended(&mut self, limit: i64) -> Answer<Vec<RenderRow>> {
        on_either!(self, render::queue::list_ended(limit))
    }

    pub(crate) async fn render_count_ahead(&mut self, row: AheadRow, most: i64) -> Answer<i64> {
        on_either!(self, render::queue::count_ahead(row, most))
    }

    pub(crate) async fn render_average(&mut self, newest: i64) -> Answer<Option<f64>> {
        on_either!(self, render::queue::average(newest))
    }

    pub(crate) async fn render_count(&mut self, most: i64) -> Answer<Vec<(String, i64, Option<DbTime>)>> {
        on_either!(self, render::queue::count(most))
    }

    pub(crate) async fn render_data_find(&mut self, id: i64) -> Answer<Option<DataRow>> {
        on_either!(self, render::data::find(id))
    }

    pub(crate) async fn render_data_lock_others(
        &mut self,
        key: &str,
        after: i64,
        limit: i64,
    ) -> Answer<Vec<DataRow>> {
        on_either!(self, render::data::lock_others(key, after, limit))
    }

    pub(crate) async fn render_data_save(&mut self, id: i64, text: &str, key: &str) -> Answer<()> {
        on_either!(self, render::data::save(id, text, key))
    }

    pub(crate) async fn render_transitions_of(&mut self, id: i64) -> Answer<Vec<TransitionRow>> {
        on_either!(self, render::audit::of(id))
    }

    pub(crate) async fn render_attempt_begin(
        &mut self,
        rows: &[ClaimedRow],
        takeover: Takeover<'_>,
    ) -> Answer<()> {
        on_either!(self, render::attempt::begin(rows, takeover))
    }

    pub(crate) async fn render_attempt_note(&mut self, note: &AttemptNote<'_>) -> Answer<()> {
        on_either!(self, render::attempt::note(note))
    }

    pub(crate) async fn render_attempt_end(&mut self, end: &AttemptEnd<'_>) -> Answer<()> {
        on_either!(self, render::attempt::end(end))
    }

    pub(crate) async fn render_attempts_of(&mut self, id: i64) -> Answer<Vec<AttemptRow>> {
        on_either!(self, render::attempt::of(id))
    }

    pub(crate) async fn render_attempt_document(&mut self, id: i64, epoch: i64) -> Answer<Option<String>> {
        on_either!(self, render::attempt::document(id, epoch))
    }

    pub(crate) async fn render_attempt_documents(&mut self, id: i64) -> Answer<Vec<(i64, String)>> {
        on_either!(self, render::attempt::documents(id))
    }

    pub(crate) async fn render_attempt_reseal(
        &mut self,
        id: i64,
        epoch: i64,
        text: &str,
        key: &str,
        hash: &str,
    ) -> Answer<()> {
        on_either!(self, render::attempt::reseal(id, epoch, text, key, hash))
    }

    pub(crate) async fn render_leftover_insert(&mut self, row: &NewLeftover<'_>) -> Answer<()> {
        on_either!(self, render::leftover::insert(row))
    }

    pub(crate) async fn render_leftover_take(
        &mut self,
        now: DbTime,
        look_after: DbTime,
        limit: i64,
    ) -> Answer<Vec<LeftoverRow>> {
        on_either!(self, render::leftover::take(now, look_after, limit))
    }

    pub(crate) async fn render_leftover_keep(
        &mut self,
        id: i64,
        epoch: i64,
        look_after: DbTime,
    ) -> Answer<u64> {
        on_either!(self, render::leftover::keep(id, epoch, look_after))
    }

    pub(crate) async fn render_leftover_delete(&mut self, id: i64, epoch: i64) -> Answer<u64> {
        on_either!(self, render::leftover::delete(id, epoch))
    }

    pub(crate) async fn render_leftover_count(&mut self) -> Answer<i64> {
        on_either!(self, render::leftover::count())
    }

    pub(crate) async fn render_worker_save(&mut self, row: &WorkerRow) -> Answer<()> {
        on_either!(self, render::worker::save(row))
    }

    pub(crate) async fn render_worker_delete(&mut self, process: DbId) -> Answer<()> {
        on_either!(self, render::worker::delete(process))
    }

    pub(crate) async fn render_worker_prune(&mut self, before: DbTime) -> Answer<()> {
        on_either!(self, render::worker::prune(before))
    }

    pub(crate) async fn render_worker_list(&mut self, since: DbTime) -> Answer<Vec<WorkerRow>> {
        on_either!(self, render::worker::list(since))
    }

    pub(crate) async fn render_standing_of(&mut self, since: Since) -> Answer<StandingRow> {
        on_either!(self, render::standing::of(since))
    }

    pub(crate) async fn render_standing_failures(
        &mut self,
        since: DbTime,
        passing: &str,
    ) -> Answer<Vec<(String, i64)>> {
        on_either!(self, render::standing::failures(since, passing))
    }

    pub(crate) async fn render_standing_workers(
        &mut self,
        since: DbTime,
        limit: i64,
    ) -> Answer<Vec<(String, i64, i64)>> {
        on_either!(self, render::standing::workers(since, limit))
    }

    pub(crate) async fn render_gaps(
        &mut self,
        unknown: &str,
        since: DbTime,
        most: GapMost,
    ) -> Answer<Vec<(String, i64, bool, bool)>> {
        on_either!(self, render::composition::gaps(unknown, since, most))
    }

    pub(crate) async fn render_mapping_save(&mut self, rows: &[FieldMappingRow]) -> Answer<u64> {
        on_either!(self, render::composition::mapping_save(rows))
    }

    pub(crate) async fn render_mapping_list(
        &mut self,
        composition: Option<&str>,
    ) -> Answer<Vec<FieldMappingRow>> {
        on_either!(self, render::composition::mapping_list(composition))
    }

    pub(crate) async fn render_mapping_delete(
        &mut self,
        composition: &str,
        field: Option<&str>,
    ) -> Answer<u64> {
        on_either!(self, render::composition::mapping_delete(composition, field))
    }

    pub(crate) async fn render_profile_save(
        &mut self,
        rows: &[ProfileRow],
        by: &str,
        now: DbTime,
    ) -> Answer<u64> {
        on_either!(self, render::composition::profile_save(rows, by, now))
    }

    pub(crate) async fn render_profile_list(&mut self, composition: Option<&str>) -> Answer<Vec<ProfileRow>> {
        on_either!(self, render::composition::profile_list(composition))
    }

    pub(crate) async fn render_profile_delete(&mut self, composition: &str) -> Answer<u64> {
        on_either!(self, render::composition::profile_delete(composition))
    }

    pub(crate) async fn render_revision_find(&mut self) -> Answer<(i64, i64)> {
        on_either!(self, render::composition::revisions())
    }
}

/// A render to be inserted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRenderRow<'a> {
    pub(crate) composition: Option<&'a str>,
    pub(crate) cue_item: Option<&'a str>,
    /// JSON.
    pub(crate) data: &'a str,
    pub(crate) hash: Option<&'a str>,
    pub(crate) priority: i64,
    pub(crate) deadline: Option<DbTime>,
    pub(crate) broadcast_date: Option<&'a str>,
    pub(crate) now: DbTime,
    pub(crate) by: &'a str,
}

/// A row to be written, if its lease is still the one that it had when it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saving<'a> {
    pub(crate) row: &'a RenderRow,
    pub(crate) epoch_before: i64,
    pub(crate) worker_before: Option<DbId>,
    pub(crate) by: &'a str,
}

/// What of a render differs from the others that are claimed with it.
#[derive(Clone, Debug)]
pub(crate) struct ClaimedRow {
    pub(crate) id: i64,
    pub(crate) status: String,
    pub(crate) phase: String,
    pub(crate) progress: i64,
    pub(crate) epoch: i64,
    pub(crate) attempts: i64,
    pub(crate) broadcast_date: Option<String>,
    pub(crate) nexrender_job_id: Option<String>,
}

/// Who claims, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takeover<'a> {
    pub(crate) worker: DbId,
    pub(crate) name: &'a str,
    pub(crate) until: DbTime,
    pub(crate) now: DbTime,
}

/// For how long leases are renewed, and from when if a test tells the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewed {
    pub(crate) micros: i64,
    pub(crate) now: Option<DbTime>,
}

/// Which renders are listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenderFilterRow<'a> {
    pub(crate) status: Option<&'a str>,
    pub(crate) composition: Option<&'a str>,
    pub(crate) worker: Option<&'a str>,
    pub(crate) date: Option<&'a str>,
    /// In the composition, the cue item or the message of the error.
    pub(crate) text: Option<&'a str>,
    /// None before this one.
    pub(crate) from: i64,
}

/// A render that waits, as the order of claims sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AheadRow {
    pub(crate) id: i64,
    pub(crate) priority: i64,
    pub(crate) deadline: Option<DbTime>,
    pub(crate) created_at: DbTime,
    pub(crate) now: DbTime,
}

/// How many renders are looked at, and how many compositions are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GapMost {
    pub(crate) renders: i64,
    pub(crate) told: i64,
}

/// What becomes known of an attempt; what is not given stays as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptNote<'a> {
    pub(crate) render_id: i64,
    pub(crate) epoch: i64,
    pub(crate) nexrender_job_id: Option<&'a str>,
    pub(crate) document: Option<&'a str>,
    pub(crate) document_sha256: Option<&'a str>,
    pub(crate) document_key_id: Option<&'a str>,
    pub(crate) report: Option<&'a str>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptEnd<'a> {
    pub(crate) render_id: i64,
    pub(crate) epoch: i64,
    pub(crate) outcome: &'a str,
    pub(crate) error_code: Option<&'a str>,
    pub(crate) error_message: Option<&'a str>,
    pub(crate) now: DbTime,
}

/// A job to be taken out of nexrender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewLeftover<'a> {
    pub(crate) render_id: i64,
    pub(crate) epoch: i64,
    pub(crate) nexrender_job_id: &'a str,
    pub(crate) staged_path: Option<&'a str>,
    pub(crate) slot: &'a str,
    pub(crate) file: &'a str,
    pub(crate) since: DbTime,
    pub(crate) look_after: DbTime,
}

/// The instants that a look at what has ended needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    pub(crate) day: DbTime,
    pub(crate) hour: DbTime,
    pub(crate) now: DbTime,
    pub(crate) recoveries: i64,
}
