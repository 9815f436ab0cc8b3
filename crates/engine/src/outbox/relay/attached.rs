//! Attached tables: for its slots, a relay claims rows, publishes them, and marks the result. One batch of a table at a
//! time, in turn with the outbox.
//!
//! Claimed rows that could not be marked stay SENDING. The relay marks them later, or the next owner of the slot
//! recovers them; the epoch of the slot tells which.

use super::effort::batch_span;
use super::{EndReason, Member, SinkDown, warn};
use crate::outbox::Outcome;
use crate::{jitter_unit, metrics, pause_after};
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::attached::row::{ClaimedRow, content};
use tidemill_domain::outbox::attached::{AttachedTable, RowOutcome, TableName};
use tidemill_domain::outbox::failed_event::{FailedEventState, after_refusal};
use tidemill_domain::outbox::{Record, Seq, Slot};
use tidemill_domain::time::Monotonic;
use tidemill_store::outbox::TableLook;
use tidemill_store::outbox::attached::serve::{Claim, Claiming, SettledRow};
use tidemill_store::{StoreError, crash_point};
use tokio::sync::watch;
use tracing::Instrument;

/// Longest pause before an unavailable sink is tried again: each attempt updates every row twice.
const SINK_PAUSE_MAX: Duration = Duration::from_secs(5);

const LOOK_MAX: Duration = Duration::from_secs(1);

/// After a look that took longer than this, the table is left alone for `REST` times as long, for other tables.
const SLOW: Duration = Duration::from_millis(100);
const REST: u32 = 9;

#[derive(Debug, Default)]
pub(super) struct AttachedTables {
    tables: BTreeMap<TableName, TableState>,
    /// Not before this instant.
    resumes_at: Option<Monotonic>,
}

#[derive(Debug)]
struct TableState {
    table: AttachedTable,
    is_due: bool,
    fault: Option<String>,
    /// Not looked at before this instant.
    look_at: Option<Monotonic>,
    /// Slots in which no rows of a predecessor are left, with their epochs.
    recovered: BTreeMap<Slot, Epoch>,
    unmarked: Vec<UnmarkedRow>,
}

/// A claimed row that is not marked yet.
#[derive(Debug)]
struct UnmarkedRow {
    slot: Slot,
    /// Epoch of the slot at the claim.
    epoch: Epoch,
    settled_row: SettledRow,
    /// Whether it was counted as published. A lock can delay the mark for long.
    is_counted: bool,
}

impl AttachedTables {
    /// Keeps the state of tables that were attached before.
    fn keep(&mut self, tables: Vec<AttachedTable>, epochs: &BTreeMap<Slot, Epoch>) {
        let mut before = std::mem::take(&mut self.tables);
        for table in tables {
            let name = table.name.clone();
            let mut serving = match before.remove(&name) {
                Some(serving) => TableState { table, ..serving },
                None => TableState::new(table),
            };
            serving.is_due |= serving.fault.is_none() && serving.has_more(epochs);
            self.tables.insert(name, serving);
        }
    }

    /// Leaves out tables that answered slowly a moment ago.
    fn to_look_at(&self, now: Monotonic) -> Vec<AttachedTable> {
        let can_be = |serving: &&TableState| serving.look_at.is_none_or(|at| at <= now);
        self.tables.values().filter(can_be).map(|serving| serving.table.clone()).collect()
    }

    /// Returns why the table cannot be served any more, if that is new.
    fn seen(&mut self, name: &TableName, look: TableLook, epochs: &BTreeMap<Slot, Epoch>) -> Option<String> {
        let serving = self.tables.get_mut(name)?;
        let before = serving.fault.take();
        serving.is_due = match look {
            TableLook::Due => true,
            TableLook::NotDue => serving.has_more(epochs),
            TableLook::Fault(why) => {
                serving.fault = Some(why);
                false
            }
        };
        serving.fault.clone().filter(|_| serving.fault != before)
    }

    pub(super) fn is_due(&self, now: Monotonic) -> bool {
        self.resumes_at.is_none_or(|at| at <= now) && self.tables.values().any(|serving| serving.is_due)
    }
}

impl TableState {
    const fn new(table: AttachedTable) -> Self {
        Self {
            table,
            is_due: false,
            fault: None,
            look_at: None,
            recovered: BTreeMap::new(),
            unmarked: Vec::new(),
        }
    }

    /// Whether there is work even if no row is due.
    fn has_more(&self, epochs: &BTreeMap<Slot, Epoch>) -> bool {
        let is_recovered = |(slot, epoch): (&Slot, &Epoch)| self.recovered.get(slot) == Some(epoch);
        !self.unmarked.is_empty() || !epochs.iter().all(is_recovered)
    }

    /// Slots in which a predecessor may have left rows. Not those in which our own rows are unmarked: they would be
    /// sent again.
    fn to_recover(&self, epochs: &BTreeMap<Slot, Epoch>) -> Vec<Slot> {
        let is_ours = |slot: &Slot| self.unmarked.iter().any(|unmarked| unmarked.slot == *slot);
        let is_new =
            |(slot, epoch): &(&Slot, &Epoch)| self.recovered.get(slot) != Some(epoch) && !is_ours(slot);
        epochs.iter().filter(is_new).map(|(slot, _)| *slot).collect()
    }
}

impl Member<'_> {
    /// Looks at the attached tables, renewing the lease meanwhile.
    pub(super) async fn see_attached(&mut self, tables: Vec<AttachedTable>) -> Result<(), EndReason> {
        self.attached.keep(tables, &self.epochs);
        let slots: Vec<Slot> = self.epochs.keys().copied().collect();
        if slots.is_empty() {
            return Ok(());
        }
        for table in self.attached.to_look_at(self.now()) {
            let (name, started) = (&table.name, self.now());
            let within = LOOK_MAX.min(self.relay.options.lease / 4);
            self.counters.queried(4);
            let looking = self.in_time(self.relay.store.look_at_attached(&table, &slots, within));
            let new_fault = match self.while_alive(looking).await? {
                Ok(look) => self.attached.seen(name, look, &self.epochs),
                Err(error) => {
                    warn(&error, &format!("the attached table {name} could not be looked at"));
                    None
                }
            };
            let (now, took) = (self.now(), self.now().since(started));
            if let Some(serving) = self.attached.tables.get_mut(name) {
                serving.look_at = (took >= SLOW).then(|| now.plus(took * REST));
            }
            if let Some(why) = new_fault {
                let faults = self.faults(&table).await;
                tracing::warn!(table = %name, "the attached table {name} cannot be served: {why}{faults}; will try again");
            }
        }
        Ok(())
    }

    /// What is wrong with a table and how to fix it, if that can be found out in time.
    async fn faults(&self, table: &AttachedTable) -> String {
        // The lease is more important than a helpful message.
        let finding = tokio::time::timeout(self.guard.remaining() / 4, self.relay.store.table_faults(table));
        let faults = finding.await.ok().and_then(Result::ok).unwrap_or_default();
        faults.iter().map(|fault| format!("; {fault}")).collect()
    }

    /// One batch of each attached table that has work.
    pub(super) async fn serve_attached(&mut self, stop: &watch::Receiver<bool>) -> Result<(), EndReason> {
        if !self.attached.is_due(self.now()) {
            return Ok(());
        }
        // Taken out, and put back unless the membership ends.
        let mut attached = std::mem::take(&mut self.attached);
        attached.resumes_at = None;
        for serving in attached.tables.values_mut().filter(|serving| serving.is_due) {
            if *stop.borrow() {
                break;
            }
            self.serve(serving).await?;
            if let Some(down) = self.sink_down {
                let wait = pause_after(down.failures, Duration::from_millis(200), SINK_PAUSE_MAX);
                attached.resumes_at = Some(self.now().plus(wait));
                break;
            }
        }
        self.attached = attached;
        Ok(())
    }

    /// One batch. Errors of the table are retried after the next look.
    async fn serve(&mut self, serving: &mut TableState) -> Result<(), EndReason> {
        serving.is_due = false;
        let epochs = &self.epochs;
        serving.unmarked.retain(|unmarked| epochs.get(&unmarked.slot) == Some(&unmarked.epoch));
        if !self.mark(serving).await? {
            return Ok(());
        }
        let Some(claim) = self.claim(serving).await? else { return Ok(()) };
        if claim.rows.is_empty() {
            return Ok(());
        }
        crash_point!("outbox_attached_claimed");
        let begun = self.batch_begins(claim.rows.len());
        let span = batch_span(claim.rows.len());
        let marks = self.publish_rows(&serving.table, &claim).instrument(span).await?;
        crash_point!("outbox_attached_published");
        let is_full = claim.rows.len() >= self.relay.options.batch.get() as usize;
        for (row, mark) in claim.rows.iter().zip(marks) {
            let slot = Slot::of(&row.aggregate_id);
            let epoch = self.epoch(slot);
            let settled_row = SettledRow { id: row.id, attempts_before: row.attempts, mark };
            serving.unmarked.push(UnmarkedRow { slot, epoch, settled_row, is_counted: false });
        }
        let is_marked = self.mark(serving).await?;
        serving.is_due = is_marked;
        if self.sink_down.is_some() && self.relay.publisher.is_gone() {
            return Err(EndReason::SinkGone);
        }
        let spent = self.batch_ended(begun, claim.rows.len(), Some(&serving.table.name));
        if !is_full {
            // Few rows, so wait a moment for more.
            tokio::time::sleep(super::member::GATHER.saturating_sub(spent)).await;
        }
        Ok(())
    }

    /// Claims the next rows, after recovering those of a predecessor. None if the table cannot be used now.
    async fn claim(&mut self, serving: &mut TableState) -> Result<Option<Claim>, EndReason> {
        let slots: Vec<Slot> = self.epochs.keys().copied().collect();
        let recover = serving.to_recover(&self.epochs);
        let limit = self.relay.options.batch.get();
        let within = self.guard.remaining() / 2;
        let claiming = Claiming { table: &serving.table, slots: &slots, recover: &recover, limit, within };
        self.counters.queried(5);
        let claiming = self.change(0, async |tx| tx.outbox().claim_attached(&claiming).await);
        match claiming.await? {
            Ok(claim) => {
                let done = recover.iter().filter(|slot| !claim.unrecovered.contains(slot));
                serving.recovered.extend(done.filter_map(|slot| Some((*slot, *self.epochs.get(slot)?))));
                Ok(Some(claim))
            }
            Err(error) => {
                self.failed(&serving.table, &error, "no rows could be claimed").await?;
                // It may have committed: then these rows have to be recovered.
                serving.recovered.clear();
                Ok(None)
            }
        }
    }

    /// Publishes rows, and returns how to mark each.
    async fn publish_rows(
        &mut self,
        table: &AttachedTable,
        claim: &Claim,
    ) -> Result<Vec<RowOutcome>, EndReason> {
        let mut marks = vec![RowOutcome::Back; claim.rows.len()];
        let (mut places, mut records) = (Vec::new(), Vec::new());
        let mut refused = std::collections::HashSet::new();
        for ((n, row), mark) in claim.rows.iter().enumerate().zip(&mut marks) {
            if refused.contains(&row.aggregate_id) {
                continue;
            }
            match self.row_record(table, row) {
                Ok(record) => {
                    places.push(n);
                    records.push(record);
                }
                Err(error) => {
                    metrics::outbox_refused().increment(1);
                    tracing::warn!(table = %table.name, event.id = %row.id, "row {} of {} cannot be published: {error}", row.id, table.name);
                    refused.insert(&row.aggregate_id);
                    let attempts = row.attempts.saturating_add(1);
                    *mark = RowOutcome::Failed { attempts, error };
                }
            }
        }
        let outcomes = self.while_alive(self.send(&self.relay.beside, &records)).await?;
        let mut why_not = None;
        if outcomes.contains(&Outcome::Delivered) {
            self.sink_down = None;
        }
        for (n, outcome) in places.into_iter().zip(outcomes) {
            let (Some(row), Some(mark)) = (claim.rows.get(n), marks.get_mut(n)) else { continue };
            *mark = match outcome {
                Outcome::Delivered => RowOutcome::Published,
                Outcome::Held => RowOutcome::Back,
                Outcome::Refused { why, is_permanent } => {
                    metrics::outbox_refused().increment(1);
                    tracing::warn!(table = %table.name, event.id = %row.id, "row {} of {} was refused: {why}", row.id, table.name);
                    let (attempts, error, retry) =
                        (row.attempts.saturating_add(1), why, &self.relay.options.retry);
                    match after_refusal(row.attempts, is_permanent, retry, claim.at, jitter_unit()) {
                        FailedEventState::Waiting { next_attempt_at } => {
                            RowOutcome::Again { next_attempt_at, attempts, error }
                        }
                        FailedEventState::Parked | FailedEventState::Held | FailedEventState::Skipped => {
                            RowOutcome::Failed { attempts, error }
                        }
                    }
                }
                Outcome::Unavailable { why } => {
                    why_not.get_or_insert(why);
                    RowOutcome::Back
                }
            };
        }
        if let Some(why) = why_not {
            self.sink_down = Some(SinkDown::again(self.sink_down, self.now()));
            metrics::outbox_sink_failures().increment(1);
            self.relay.warn_of_sink("events", &why);
        }
        Ok(marks)
    }

    /// Marks rows, except locked ones. False if all of them have to wait.
    async fn mark(&mut self, serving: &mut TableState) -> Result<bool, EndReason> {
        if serving.unmarked.is_empty() {
            return Ok(true);
        }
        let settled: Vec<SettledRow> =
            serving.unmarked.iter().map(|unmarked| unmarked.settled_row.clone()).collect();
        let is_new = |one: &&UnmarkedRow| !one.is_counted && one.settled_row.mark == RowOutcome::Published;
        let published = serving.unmarked.iter().filter(is_new).count();
        self.counters.queried(4);
        let table = &serving.table;
        let marking = self.change(published, async |tx| tx.outbox().mark_attached(table, &settled).await);
        match marking.await? {
            Ok(marked) => {
                metrics::outbox_published().increment(published as u64);
                self.has_published |= published > 0;
                serving.unmarked.retain(|unmarked| marked.locked.contains(&unmarked.settled_row.id));
                serving.unmarked.iter_mut().for_each(|unmarked| unmarked.is_counted = true);
                Ok(true)
            }
            Err(error) => {
                self.failed(&serving.table, &error, "what became of its rows could not be marked").await?;
                Ok(false)
            }
        }
    }

    /// Reloads, because the number of acknowledgements tells whether a failed change was committed after all.
    async fn failed(
        &mut self,
        table: &AttachedTable,
        error: &StoreError,
        what: &str,
    ) -> Result<(), EndReason> {
        let faults = match error {
            StoreError::NotPermitted(_) => self.faults(table).await,
            _ => String::new(),
        };
        warn(error, &format!("{}: {what}{faults}", table.name));
        self.reload().await
    }

    /// The error says why the row cannot be sent.
    fn row_record(&self, table: &AttachedTable, row: &ClaimedRow) -> Result<Record, String> {
        let content = content(table, row).map_err(|bad| format!("{}: {bad}", bad.code()))?;
        let slot = content.aggregate.slot();
        Ok(Record {
            id: row.id,
            table: Some(table.name.clone()),
            slot,
            epoch: self.epoch(slot),
            // Rows of a slot are not counted; their ids grow just as well.
            seq: Seq::new(row.id.get()),
            aggregate: content.aggregate,
            event_type: content.event_type,
            topic: table.topic.clone(),
            is_redirected: false,
            headers: content.headers,
            payload: content.payload,
            created_at: row.updated_at,
        })
    }
}
