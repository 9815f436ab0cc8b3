//! Operator actions on failed events: skip, edit, replay, redirect. One transaction changes a bounded number of them,
//! with an audit entry each; continue with [`OperationResult::next`].

use super::{FailedEventFilter, FailedEventRecord};
use crate::error::Result;
use crate::outbox::EVENTS;
use crate::statements::outbox::failed_event::FailedEventChange;
use crate::tx::Outbox;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::{self, FailedEvent, FailedEventRefusal, StateWord, Verb};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    One(EventId),
    Selected(Vec<EventId>),
    /// All events that match a filter and allow the action.
    Matching {
        filter: FailedEventFilter,
        /// After this event.
        after: EventId,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    pub verb: &'a Verb,
    pub actor: &'a Actor,
    pub reason: &'a str,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "an order may be refused"]
pub struct OperationResult {
    pub changed: Vec<EventId>,
    /// Events left unchanged, and why.
    pub refused: Vec<(EventId, FailedEventRefusal)>,
    /// There may be more: continue after this event. Of a list of events, those after this one were not processed.
    pub next: Option<EventId>,
}

impl Outbox<'_> {
    /// Wakes relays.
    #[crate::boxed]
    pub async fn operate(
        &mut self,
        selection: &Selection,
        operation: &Operation<'_>,
    ) -> Result<OperationResult> {
        let (ids, next) = self.select_failed_events(selection, operation).await?;
        let mut operated = OperationResult { next, ..OperationResult::default() };
        if ids.is_empty() {
            return Ok(operated);
        }
        let found = self.lock_records(&ids).await?;
        let now = self.now().await?;
        let (mut changes, mut entries, mut aggregates) = (Vec::new(), Vec::new(), BTreeSet::new());
        for id in ids {
            let (record, filter) = match (found.get(&id), selection) {
                (Some(record), Selection::Matching { filter, .. }) => (record, Some(filter)),
                (Some(record), _) => (record, None),
                // Delivered since it was selected.
                (None, Selection::Matching { .. }) => continue,
                (None, _) => {
                    operated.refused.push((id, FailedEventRefusal::Unknown));
                    continue;
                }
            };
            // Another operator may have changed it, so that it no longer matches.
            if filter.is_some_and(|filter| !filter.matches(record)) {
                continue;
            }
            match failed_event::operate(record.facts(), operation.verb, now) {
                Err(refusal) => operated.refused.push((id, refusal)),
                Ok(after) => {
                    let seen = record.failed_event.revision;
                    changes.push(FailedEventChange { event_id: id.get(), seen, after, error: None });
                    entries.push(entry(record, after, operation));
                    aggregates.insert((record.slot, record.aggregate.clone()));
                    operated.changed.push(id);
                }
            }
        }
        if changes.is_empty() {
            return Ok(operated);
        }
        self.save_order(&changes, operation.verb, now).await?;
        self.promote(&aggregates.into_iter().collect::<Vec<_>>(), now).await?;
        self.audit_insert_all(&entries, now).await?;
        self.wake(EVENTS);
        Ok(operated)
    }

    /// The selected events, and where to continue if there are more.
    async fn select_failed_events(
        &mut self,
        selection: &Selection,
        operation: &Operation<'_>,
    ) -> Result<(Vec<EventId>, Option<EventId>)> {
        let limit = operation.limit.max(1);
        let mut ids: Vec<EventId> = match selection {
            Selection::One(id) => vec![*id],
            Selection::Selected(ids) => ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
            Selection::Matching { filter, after } => {
                let wanted = if filter.states.is_empty() { &StateWord::ALL[..] } else { &filter.states };
                let applicable = wanted.iter().copied().filter(|state| operation.verb.applies_to(*state));
                let states: Vec<StateWord> = applicable.collect();
                if states.is_empty() {
                    return Ok((Vec::new(), None));
                }
                let filter = FailedEventFilter { states, ..filter.clone() };
                let records = self.failed_events(&filter, *after, limit.saturating_add(1)).await?;
                records.into_iter().map(|record| record.id).collect()
            }
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = ids.len() > limit;
        ids.truncate(limit);
        let next = if has_more { ids.last().copied() } else { None };
        Ok((ids, next))
    }

    async fn lock_records(&mut self, ids: &[EventId]) -> Result<BTreeMap<EventId, FailedEventRecord>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let slots = self.failed_event_slots(&ids).await?;
        self.failed_event_lock(&slots).await?;
        let records = self.failed_event_find(&ids).await?;
        Ok(records.into_iter().map(|record| (record.id, record)).collect())
    }

    async fn save_order(&mut self, changes: &[FailedEventChange], verb: &Verb, now: Timestamp) -> Result<()> {
        let ids: Vec<i64> = changes.iter().map(|change| change.event_id).collect();
        match verb {
            Verb::Skip | Verb::Replay => {}
            Verb::Edit(edit) => self.failed_event_edit(&ids, edit).await?,
            Verb::Redirect(redirect) => self.failed_event_redirect(&ids, redirect.topic()).await?,
        }
        self.failed_event_save(changes, now).await?;
        Ok(())
    }
}

fn entry(record: &FailedEventRecord, after: FailedEvent, operation: &Operation<'_>) -> AuditEntry {
    let action = format!("event.{}", operation.verb.as_str());
    let (from, to) = (record.failed_event.state.word(), after.state.word());
    AuditEntry::new(operation.actor.clone(), &action, &format!("event/{}", record.id))
        .from_to(from.as_str(), to.as_str())
        .because(operation.reason)
}
