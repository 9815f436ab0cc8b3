//! Claims rows of an attached table and marks their outcomes. Both happen only in a transaction whose acknowledgement
//! has confirmed the relay's lease, so that a retired relay does neither.

use crate::error::Result;
use crate::outbox::attached::row::AttemptRow;
use crate::outbox::failed_event::storable;
use crate::statements::outbox::attached::{self as statement, ClaimLimits};
use crate::tx::Outbox;
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::outbox::attached::row::ClaimedRow;
use tidemill_domain::outbox::attached::{AttachedTable, RowOutcome};
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_domain::time::Timestamp;

/// Approximate bytes of payloads and headers per claim. Rows too large to publish are not fetched and do not count.
const BYTES_MAX: i64 = 16 * 1024 * 1024;

/// Rows to look at per slot, however many slots there are.
const PER_SLOT_MIN: usize = 16;

/// How often to look for other rows when the first ones are locked.
const ROUNDS_MAX: u32 = 4;

#[derive(Clone, Debug)]
pub struct Claiming<'a> {
    pub table: &'a AttachedTable,
    pub slots: &'a [Slot],
    /// Slots without rows of ours in flight, in which a previous owner may have left some.
    pub recover: &'a [Slot],
    pub limit: u32,
    /// Statement timeout: the relay has to renew its lease afterwards.
    pub within: Duration,
}

#[derive(Clone, Debug)]
pub struct Claim {
    /// By id.
    pub rows: Vec<ClaimedRow>,
    /// Slots in which locked rows of a previous owner remain.
    pub unrecovered: Vec<Slot>,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettledRow {
    pub id: EventId,
    pub attempts_before: u32,
    pub mark: RowOutcome,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marked {
    pub changed: u64,
    /// Rows still SENDING, because they are locked: mark them later.
    pub locked: BTreeSet<EventId>,
}

impl Outbox<'_> {
    /// Claims due rows: their status becomes SENDING. None if the table is no longer attached. SENDING rows of the
    /// slots to recover become PENDING first.
    #[crate::boxed]
    pub async fn claim_attached(&mut self, claiming: &Claiming<'_>) -> Result<Claim> {
        let at = self.now().await?;
        let mut claim = Claim { rows: Vec::new(), unrecovered: Vec::new(), at };
        let name = &claiming.table.name;
        let Some(connection) = self.postgres() else { return Ok(claim) };
        statement::prepare(&mut *connection, &claiming.table.time_zone, Some(claiming.within)).await?;
        if claiming.slots.is_empty() {
            return Ok(claim);
        }
        let Some(payload_type) = statement::lock_attached(&mut *connection, name).await? else {
            return Ok(claim);
        };
        if !claiming.recover.is_empty() {
            let left = statement::recover(&mut *connection, name, &numbers(claiming.recover), at).await?;
            claim.unrecovered =
                left.into_iter().filter_map(|slot| u8::try_from(slot).ok()).map(Slot::new).collect();
        }
        let per_slot = (claiming.limit as usize * 4 / claiming.slots.len()).max(PER_SLOT_MIN);
        let per_slot = i64::try_from(per_slot).unwrap_or(i64::MAX);
        let (mut rows, mut bytes) = (i64::from(claiming.limit), BYTES_MAX);
        let slots = numbers(claiming.slots);
        let mut passed_over = Vec::new();
        // Many locked rows of one aggregate must not block the others.
        for _ in 0..ROUNDS_MAX {
            let limits = ClaimLimits { per_slot, rows, bytes, without: &passed_over };
            let table = (name, payload_type.as_deref());
            let found = statement::claim(&mut *connection, table, &slots, at.into(), limits).await?;
            let mut locked = Vec::new();
            for row in found {
                match row.claimed(at.into()) {
                    Ok(row) => {
                        rows -= 1;
                        bytes -= i64::try_from(row.bytes()).unwrap_or(i64::MAX);
                        claim.rows.push(row);
                    }
                    Err(aggregate) => locked.push(aggregate),
                }
            }
            if locked.is_empty() || rows <= 0 || bytes <= 0 {
                break;
            }
            passed_over.extend(locked);
        }
        claim.rows.sort_by_key(|row| row.id);
        Ok(claim)
    }

    /// Records outcomes of rows still SENDING, so it is safe to repeat. Locked rows are returned, not waited for.
    #[crate::boxed]
    pub async fn mark_attached(&mut self, table: &AttachedTable, rows: &[SettledRow]) -> Result<Marked> {
        let now = self.now().await?;
        let name = &table.name;
        let Some(connection) = self.postgres() else { return Ok(Marked::default()) };
        statement::prepare(&mut *connection, &table.time_zone, None).await?;
        let (mut published, mut back, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut again, mut again_at, mut tried) = (Vec::new(), Vec::new(), Vec::new());
        let (mut attempts, mut settled) = (Vec::new(), BTreeSet::new());
        for SettledRow { id, attempts_before, mark } in rows {
            let event_id = id.get();
            let attempt = |state, attempts: &u32, error: &str| AttemptRow {
                event_id,
                state,
                attempts: (*attempts).into(),
                error: Some(storable(error)),
            };
            match mark {
                RowOutcome::Published => {
                    published.push(event_id);
                    tried.extend((*attempts_before > 0).then_some(event_id));
                }
                RowOutcome::Back => back.push(event_id),
                RowOutcome::Again { next_attempt_at, attempts: count, error } => {
                    again.push(event_id);
                    again_at.push((*next_attempt_at).into());
                    attempts.push(attempt("waiting", count, error));
                }
                RowOutcome::Failed { attempts: count, error } => {
                    failed.push(event_id);
                    attempts.push(attempt("failed", count, error));
                }
            }
        }
        for (status, ids) in [("PUBLISHED", &published), ("PENDING", &back), ("FAILED", &failed)] {
            if !ids.is_empty() {
                settled.extend(statement::settle(&mut *connection, name, status, ids, now).await?);
            }
        }
        if !again.is_empty() {
            let tried = statement::try_again(&mut *connection, name, &again, &again_at, now).await?;
            settled.extend(tried);
        }
        attempts.retain(|attempt| settled.contains(&attempt.event_id));
        if !attempts.is_empty() {
            statement::save_attempts(&mut *connection, name, &attempts, now).await?;
        }
        tried.retain(|id| settled.contains(id));
        if !tried.is_empty() {
            statement::forget_attempts(&mut *connection, name, &tried).await?;
        }
        let given = rows.iter().map(|row| row.id.get());
        let unsettled: Vec<i64> = given.filter(|id| !settled.contains(id)).collect();
        let mut locked = BTreeSet::new();
        if !unsettled.is_empty() {
            let sending = statement::sending(&mut *connection, name, &unsettled).await?;
            locked.extend(sending.into_iter().map(EventId::new));
        }
        Ok(Marked { changed: settled.len() as u64, locked })
    }
}

pub(super) fn numbers(slots: &[Slot]) -> Vec<i32> {
    slots.iter().map(|slot| i32::from(slot.get())).collect()
}
