//! Statements on excepted events.

use crate::codec::DbTime;
use crate::outbox::exception::NewException;
use crate::row::outbox::exception::{AggregateRow, ContentRow, DueRow, ExceptionRow, StandingRow};
use crate::tx::{Answer, Connection, Most, Tx};
use crate::{postgres, sqlite};
use tidemill_domain::outbox::exception::{Exception, ExceptionState};

impl Tx {
    pub(crate) async fn exception_lock(&mut self, slots: &[i16]) -> Answer<()> {
        on_either!(self, outbox::exception::lock(slots))
    }

    pub(crate) async fn exception_slots(&mut self, ids: &[i64]) -> Answer<Vec<i16>> {
        on_either!(self, outbox::exception::slots(ids))
    }

    pub(crate) async fn exception_known(&mut self, ids: &[i64]) -> Answer<Vec<i64>> {
        on_either!(self, outbox::exception::known(ids))
    }

    pub(crate) async fn exception_open(&mut self, keys: &[AggregateRow]) -> Answer<Vec<AggregateRow>> {
        on_either!(self, outbox::exception::open(keys))
    }

    pub(crate) async fn exception_insert(&mut self, rows: &[NewExceptionRow<'_>], now: DbTime) -> Answer<()> {
        on_either!(self, outbox::exception::insert(rows, now))
    }

    pub(crate) async fn exception_blocked(&mut self, slots: &[i16]) -> Answer<Vec<AggregateRow>> {
        on_either!(self, outbox::exception::blocked(slots))
    }

    pub(crate) async fn exception_due(
        &mut self,
        slots: &[i16],
        now: DbTime,
        heads_max: i64,
        most: Most,
    ) -> Answer<Vec<DueRow>> {
        on_either!(self, outbox::exception::due(slots, now, heads_max, most))
    }

    pub(crate) async fn exception_standing(&mut self, ids: &[i64]) -> Answer<Vec<StandingRow>> {
        on_either!(self, outbox::exception::standing(ids))
    }

    pub(crate) async fn exception_delete(&mut self, rows: &[(i64, i64)]) -> Answer<u64> {
        on_either!(self, outbox::exception::delete(rows))
    }

    pub(crate) async fn exception_save(&mut self, changes: &[ExceptionChange], now: DbTime) -> Answer<u64> {
        on_either!(self, outbox::exception::save(changes, now))
    }

    pub(crate) async fn exception_promote(&mut self, keys: &[AggregateRow], now: DbTime) -> Answer<()> {
        on_either!(self, outbox::exception::promote(keys, now))
    }

    pub(crate) async fn exception_list(
        &mut self,
        filter: &ExceptionFilterRow<'_>,
        after: i64,
        limit: i64,
    ) -> Answer<Vec<ExceptionRow>> {
        on_either!(self, outbox::exception::operate::list(filter, after, limit))
    }

    pub(crate) async fn exception_count(
        &mut self,
        filter: &ExceptionFilterRow<'_>,
        limit: i64,
    ) -> Answer<i64> {
        on_either!(self, outbox::exception::operate::count(filter, limit))
    }

    pub(crate) async fn exception_find(&mut self, ids: &[i64]) -> Answer<Vec<ExceptionRow>> {
        on_either!(self, outbox::exception::operate::find(ids))
    }

    pub(crate) async fn exception_content(&mut self, id: i64) -> Answer<Option<ContentRow>> {
        on_either!(self, outbox::exception::operate::content(id))
    }

    pub(crate) async fn exception_edit(&mut self, ids: &[i64], edit: &EditColumns<'_>) -> Answer<()> {
        on_either!(self, outbox::exception::operate::edit(ids, edit))
    }

    pub(crate) async fn exception_redirect(&mut self, ids: &[i64], topic: &str) -> Answer<()> {
        on_either!(self, outbox::exception::operate::redirect(ids, topic))
    }
}

/// A new exception.
#[derive(Clone, Debug)]
pub(crate) struct NewExceptionRow<'a> {
    pub(crate) new: &'a NewException,
    pub(crate) state: &'static str,
    pub(crate) next_attempt_at: Option<DbTime>,
    pub(crate) error: Option<String>,
}

impl<'a> NewExceptionRow<'a> {
    pub(crate) fn new(new: &'a NewException, state: ExceptionState, error: Option<String>) -> Self {
        let (state, next_attempt_at) = stored(state);
        Self { new, state, next_attempt_at, error }
    }
}

/// An exception as it is to be, if it is still of this revision. Without an error the last one stays.
#[derive(Clone, Debug)]
pub(crate) struct ExceptionChange {
    pub(crate) event_id: i64,
    pub(crate) seen: i64,
    pub(crate) state: &'static str,
    pub(crate) next_attempt_at: Option<DbTime>,
    pub(crate) attempts: i64,
    pub(crate) revision: i64,
    pub(crate) error: Option<String>,
}

impl ExceptionChange {
    pub(crate) fn new(event_id: i64, seen: i64, after: Exception, error: Option<String>) -> Self {
        let (state, next_attempt_at) = stored(after.state);
        let (attempts, revision) = (after.attempts.into(), after.revision);
        Self { event_id, seen, state, next_attempt_at, attempts, revision, error }
    }
}

/// The word that is stored for a state, and when the next attempt is due.
fn stored(state: ExceptionState) -> (&'static str, Option<DbTime>) {
    let next_attempt_at = match state {
        ExceptionState::Waiting { next_attempt_at } => Some(next_attempt_at.into()),
        ExceptionState::Held | ExceptionState::Parked | ExceptionState::Skipped => None,
    };
    (state.word().as_str(), next_attempt_at)
}

/// What is published in place of what an event says.
#[derive(Clone, Debug)]
pub(crate) struct EditColumns<'a> {
    pub(crate) replaces_payload: bool,
    pub(crate) payload: Option<&'a str>,
    pub(crate) payload_bytes: Option<&'a [u8]>,
    pub(crate) replaces_headers: bool,
    pub(crate) headers: Option<String>,
}

/// Which exceptions; an absent condition is always met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExceptionFilterRow<'a> {
    pub(crate) states: &'a [&'a str],
    pub(crate) slot: Option<i16>,
    pub(crate) aggregate_type: Option<&'a str>,
    pub(crate) aggregate_id: Option<&'a str>,
    pub(crate) topic: Option<&'a str>,
    pub(crate) event_type: Option<&'a str>,
    pub(crate) error_contains: Option<&'a str>,
}
