//! Statements on events.

use crate::codec::DbTime;
use crate::row::outbox::event::{EventRecordRow, EventRow, WhereRow};
use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};
use tidemill_domain::outbox::NewEvent;

impl Tx {
    pub(crate) async fn outbox_event_insert(
        &mut self,
        events: &[NewEvent],
        now: Option<DbTime>,
    ) -> Answer<Vec<i64>> {
        on_either!(self, outbox::event::insert(events, now))
    }

    pub(crate) async fn outbox_event_find(&mut self, id: i64) -> Answer<Option<EventRow>> {
        on_either!(self, outbox::event::find(id))
    }

    pub(crate) async fn outbox_event_places(&mut self, ids: &[i64]) -> Answer<Vec<WhereRow>> {
        on_either!(self, outbox::event::places(ids))
    }

    pub(crate) async fn outbox_event_list(
        &mut self,
        filter: &EventFilterRow<'_>,
    ) -> Answer<Vec<EventRecordRow>> {
        on_either!(self, outbox::event::list(filter))
    }
}

/// What to list of the events; an absent condition is always met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFilterRow<'a> {
    pub(crate) before: Option<i64>,
    pub(crate) aggregate_type: Option<&'a str>,
    pub(crate) aggregate_id: Option<&'a str>,
    pub(crate) topic: Option<&'a str>,
    pub(crate) event_type: Option<&'a str>,
    pub(crate) limit: i64,
}
