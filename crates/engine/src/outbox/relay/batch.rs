//! One batch: read, published while the next one is read, and acknowledged.

use super::effort::batch_span;
use super::{EndReason, Member, SinkDown, short_pause};
use crate::outbox::{Outcome, Publisher};
use crate::{jitter_unit, metrics};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::cursor::{Advance, Cursor};
use tidemill_domain::outbox::failed_event::{FailedEventState, after_refusal};
use tidemill_domain::outbox::{
    Aggregate, EventId, Payload, Record, Seq, Slot, StoredEvent, Unit, Window, cursor,
};
use tidemill_domain::trace::{TRACEPARENT, TraceParent};
use tidemill_store::outbox::failed_event::NewFailedEvent;
use tidemill_store::outbox::reading::{Low, Page, Reading};
use tidemill_store::{StoreError, crash_point, trace};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

/// What the SDK of OpenTelemetry keeps of the links of a span.
const LINKS_MAX: usize = 128;

#[derive(Debug)]
pub(super) struct Batch {
    /// The slots that were read.
    slots: BTreeSet<Slot>,
    page: Page,
    is_full: bool,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.page.events.is_empty()
    }

    /// Whether it ends a window that goes up to now.
    pub(super) fn is_last(&self) -> bool {
        self.page.window.to.is_none() && self.page.seen.is_some() && !self.is_full
    }

    /// Drops slots that this relay no longer has.
    pub(super) fn forget(&mut self, released: &[Slot]) {
        self.slots.retain(|slot| !released.contains(slot));
        self.page.events.retain(|event| !released.contains(&event.slot));
    }

    /// The cursors after its first `settled` events.
    pub(super) fn advanced(&self, cursors: &[Cursor], settled: usize) -> Vec<Cursor> {
        let events = self.page.events.get(..settled).unwrap_or_default();
        let mut counts: BTreeMap<Slot, i64> = BTreeMap::new();
        for event in events {
            *counts.entry(event.slot).or_default() += 1;
        }
        let partly: Window;
        let window = if settled == self.page.events.len() {
            &self.page.window
        } else {
            partly = self.page.opened.clone().after(events.last().map_or(EventId::ZERO, |event| event.id));
            &partly
        };
        cursor::advanced(cursors.to_vec(), &Advance { slots: &self.slots, window, counts: &counts })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum EventResult {
    Published,
    /// Becomes a failed event: state, attempts and reason.
    Failed(FailedEventState, u32, Option<String>),
    Open,
}

impl Member<'_> {
    /// Reads the next batch, with retries while the lease is valid. None without slots.
    pub(super) async fn read_patiently(&mut self) -> Result<Option<Batch>, EndReason> {
        let mut failures = 0;
        loop {
            // A large window may take longer than a lease.
            match self.while_alive(self.read(&self.cursors, None)).await? {
                Ok(batch) => return Ok(batch),
                Err(error) => {
                    self.wait_after(&error, "events could not be read", &mut failures).await?;
                    // Renews, so that the membership survives if the database comes back in time.
                    self.look_at = self.now();
                    match self.try_view(false).await {
                        Ok(Some(view)) => self.check_server(&view)?,
                        Ok(None) => return Err(EndReason::Fenced),
                        Err(_) => {}
                    }
                }
            }
        }
    }

    /// Reads the slots that are furthest behind. None without slots.
    async fn read(&self, cursors: &[Cursor], low: Option<Low>) -> Result<Option<Batch>, StoreError> {
        let Some(first) = cursors.first() else { return Ok(None) };
        let limit = self.relay.options.batch.get();
        let stop = cursor::next_stop(cursors);
        let reading = Reading { cursor: first, stop, floor: self.floor, low, limit };
        let page = self.relay.store.read_outbox(&reading).await?;
        self.counters.queried(page.queries);
        self.counters.polled(page.events.is_empty());
        let is_full = page.events.len() >= limit as usize || page.window.to.is_some() || stop.is_some();
        Ok(Some(Batch { slots: first.slots.keys().copied().collect(), page, is_full }))
    }

    /// Publishes and acknowledges a batch; returns the next one, if it was read meanwhile.
    pub(super) async fn publish(
        &mut self,
        batch: Batch,
        stop: &watch::Receiver<bool>,
    ) -> Result<Option<Batch>, EndReason> {
        let span = batch_span(batch.page.events.len());
        link(&span, &batch.page.events);
        self.publish_in_span(batch, stop).instrument(span).await
    }

    async fn publish_in_span(
        &mut self,
        mut batch: Batch,
        stop: &watch::Receiver<bool>,
    ) -> Result<Option<Batch>, EndReason> {
        let count = batch.page.events.len();
        let begun = self.batch_begins(count);
        let after = batch.advanced(&self.cursors, count);
        let (low, is_full) = (batch.page.low.clone(), batch.is_full);
        let reading_ahead = async {
            // Only a full batch is followed by more.
            if is_full { self.read(&after, low).await.ok().flatten() } else { None }
        };
        let publishing = self.results(&mut batch, stop);
        let (results, ahead) = self.while_alive(async { tokio::join!(publishing, reading_ahead) }).await?;
        let (results, sink_down) = results;
        crash_point!("outbox_published");
        let is_whole = self.settle(&batch, results).await?;
        self.sink_down = sink_down;
        self.check_ousted()?;
        if sink_down.is_some() && self.relay.publisher.is_gone() {
            return Err(EndReason::SinkGone);
        }
        self.batch_ended(begun, count, None);
        // The next batch begins where this one ends.
        Ok(ahead.filter(|_| is_whole))
    }

    /// Publishes until the result of every event is known, or the next look is due. Also returns since when the sink is
    /// down.
    async fn results(
        &self,
        batch: &mut Batch,
        stop: &watch::Receiver<bool>,
    ) -> (Vec<EventResult>, Option<SinkDown>) {
        let (mut results, mut places, mut records) = self.prepared(batch);
        let mut sink_down = self.sink_down;
        while !records.is_empty() {
            let outcomes = self.send(&self.relay.publisher, &records).await;
            let now = self.relay.clock.now();
            let mut why_not = None;
            if outcomes.contains(&Outcome::Delivered) {
                sink_down = None;
            }
            for ((n, record), outcome) in places.iter().zip(&records).zip(outcomes) {
                let result = match outcome {
                    Outcome::Delivered => EventResult::Published,
                    Outcome::Held => EventResult::Failed(FailedEventState::Held, 0, None),
                    Outcome::Refused { why, is_permanent } => {
                        metrics::outbox_refused().increment(1);
                        tracing::warn!(event.id = %record.id, "event {} was refused: {why}", record.id);
                        let state =
                            after_refusal(0, is_permanent, &self.relay.options.retry, now, jitter_unit());
                        EventResult::Failed(state, 1, Some(why))
                    }
                    Outcome::Unavailable { why } => {
                        why_not.get_or_insert(why);
                        EventResult::Open
                    }
                };
                if let Some(place) = results.get_mut(*n) {
                    *place = result;
                }
            }
            let Some(why) = why_not else { return (results, None) };
            hold_back(&mut results, &places, &records);
            let is_open = |n: &usize| results.get(*n) == Some(&EventResult::Open);
            let mut are_open = places.iter().map(is_open);
            records.retain(|_| are_open.next().unwrap_or_default());
            places.retain(is_open);
            let down = SinkDown::again(sink_down, self.now());
            sink_down = Some(down);
            metrics::outbox_sink_failures().increment(1);
            self.relay.warn_of_sink("events", &why);
            if *stop.borrow() || self.relay.publisher.is_gone() || self.relay.publisher.is_ousted() {
                break;
            }
            tokio::time::sleep(short_pause(down.failures + 2)).await;
            if self.look_at <= self.now() {
                break;
            }
        }
        (results, sink_down)
    }

    /// The results known without sending, and the records to send with the places of their events. Moves payloads out
    /// of the batch.
    fn prepared(&self, batch: &mut Batch) -> (Vec<EventResult>, Vec<usize>, Vec<Record>) {
        let mut results = vec![EventResult::Open; batch.page.events.len()];
        let (mut places, mut records) =
            (Vec::with_capacity(results.len()), Vec::with_capacity(results.len()));
        let mut refused: HashSet<Aggregate> = HashSet::new();
        let mut seqs = self.seqs();
        for ((n, event), result) in batch.page.events.iter_mut().enumerate().zip(&mut results) {
            let seq = seqs.entry(event.slot).or_default();
            *seq = seq.next();
            if self.blocked.contains(&event.aggregate) || refused.contains(&event.aggregate) {
                *result = EventResult::Failed(FailedEventState::Held, 0, None);
                continue;
            }
            match self.record(event, *seq) {
                Ok(record) => {
                    places.push(n);
                    records.push(record);
                }
                Err(why) => {
                    refused.insert(event.aggregate.clone());
                    *result = EventResult::Failed(FailedEventState::Parked, 1, Some(why));
                }
            }
        }
        (results, places, records)
    }

    fn seqs(&self) -> BTreeMap<Slot, Seq> {
        self.cursors.iter().flat_map(|cursor| cursor.slots.iter().map(|(slot, seq)| (*slot, *seq))).collect()
    }

    /// Moves the payload out of the event. The error says why it cannot be sent.
    fn record(&self, event: &mut StoredEvent, seq: Seq) -> Result<Record, String> {
        let headers = event.take_good().map_err(|why| why.to_string())?;
        Ok(Record {
            id: event.id,
            table: None,
            slot: event.slot,
            epoch: self.epoch(event.slot),
            seq,
            aggregate: event.aggregate.clone(),
            event_type: event.event_type.clone(),
            topic: std::mem::take(&mut event.topic),
            is_redirected: false,
            headers,
            payload: std::mem::replace(&mut event.payload, Payload::Tombstone),
            created_at: event.created_at,
        })
    }

    /// Sends records in order; with several senders, each has its own slots. A sink with transactions sends each group
    /// by itself.
    pub(super) async fn send(&self, publisher: &Arc<dyn Publisher>, records: &[Record]) -> Vec<Outcome> {
        let (senders, timeout) = (self.relay.options.senders.max(1), self.relay.options.timeout);
        if senders == 1 || records.len() < senders || self.relay.unit == Unit::Group {
            return publish_in_time(publisher, records, timeout).await;
        }
        let total = records.len();
        let mut shares: Vec<(Vec<usize>, Vec<Record>)> = vec![Default::default(); senders];
        for (n, record) in records.iter().enumerate() {
            if let Some((places, share)) = shares.get_mut(usize::from(record.slot.get()) % senders) {
                places.push(n);
                share.push(record.clone());
            }
        }
        let mut sending = JoinSet::new();
        for (places, share) in shares {
            let publisher = publisher.clone();
            sending.spawn(async move { (places, publish_in_time(&publisher, &share, timeout).await) });
        }
        let mut outcomes = vec![Outcome::Unavailable { why: "the sender ended".to_owned() }; total];
        while let Some(sent) = sending.join_next().await {
            let Ok((places, answers)) = sent else { continue };
            for (place, answer) in places.into_iter().zip(answers) {
                if let Some(outcome) = outcomes.get_mut(place) {
                    *outcome = answer;
                }
            }
        }
        outcomes
    }

    /// Acknowledges the batch up to the first event with an unknown result. Returns whether that was all of it.
    async fn settle(&mut self, batch: &Batch, results: Vec<EventResult>) -> Result<bool, EndReason> {
        let settled = results.iter().position(|result| *result == EventResult::Open).unwrap_or(results.len());
        if settled == 0 {
            return Ok(false);
        }
        let published =
            results.iter().take(settled).filter(|result| **result == EventResult::Published).count();
        let mut seqs = self.seqs();
        let mut failed_events = Vec::new();
        for (event, result) in batch.page.events.iter().zip(results).take(settled) {
            let seq = seqs.entry(event.slot).or_default();
            *seq = seq.next();
            if let EventResult::Failed(state, attempts, error) = result {
                failed_events.push(NewFailedEvent {
                    event_id: event.id,
                    slot: event.slot,
                    seq: *seq,
                    aggregate: event.aggregate.clone(),
                    event_type: event.event_type.clone(),
                    attempts,
                    state,
                    error,
                });
            }
        }
        let cursors = batch.advanced(&self.cursors, settled);
        self.acknowledge(cursors, published, &failed_events).await?;
        if self.relay.unit == Unit::Group {
            let events: Vec<EventId> = batch.page.events.iter().take(settled).map(|event| event.id).collect();
            self.relay.publisher.settled(&events);
        }
        self.blocked.extend(failed_events.into_iter().map(|failed_event| failed_event.aggregate));
        metrics::outbox_published().increment(published as u64);
        self.has_published |= published > 0;
        Ok(settled == batch.page.events.len())
    }

    /// Saves positions and failed events exactly once: the number of acknowledgements tells whether a write whose
    /// answer was lost has happened.
    async fn acknowledge(
        &mut self,
        cursors: Vec<Cursor>,
        published: usize,
        failed_events: &[NewFailedEvent],
    ) -> Result<(), EndReason> {
        let mut failures = 0;
        loop {
            let sent = self.now();
            match self.try_acknowledge(&cursors, published, failed_events).await {
                Ok(true) => {
                    self.guard.acknowledged(sent);
                    self.acks += 1;
                    self.cursors = cursors;
                    return Ok(());
                }
                Ok(false) => return Err(EndReason::Fenced),
                Err(error) => {
                    self.wait_after(&error, "events could not be acknowledged", &mut failures).await?;
                    let before = self.acks;
                    self.reload().await?;
                    if self.acks > before {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn try_acknowledge(
        &self,
        cursors: &[Cursor],
        published: usize,
        failed_events: &[NewFailedEvent],
    ) -> Result<bool, StoreError> {
        // Alone, or in a transaction with the clock and the failed events.
        self.counters.queried(if failed_events.is_empty() { 1 } else { 8 });
        self.in_time(async {
            let (store, is_alone) = (&self.relay.store, failed_events.is_empty());
            let mut tx = if is_alone { store.alone().await? } else { store.begin().await? };
            let is_ours = tx.outbox().acknowledge(self.fence(), cursors, published as u64).await?;
            if !is_ours {
                return Ok(false);
            }
            if !is_alone {
                let now = tx.now().await?;
                tx.outbox().add_failed_events(failed_events, now).await?;
            }
            tx.commit().await?;
            Ok(true)
        })
        .await
    }
}

/// Links the span to the traces of the events.
fn link(span: &Span, events: &[StoredEvent]) {
    if !trace::is_on() {
        return;
    }
    let place =
        |event: &StoredEvent| event.headers.good().ok()?.get(TRACEPARENT)?.parse::<TraceParent>().ok();
    let mut linked = HashSet::new();
    let places = events.iter().filter_map(place).filter(|place| linked.insert(*place));
    places.take(LINKS_MAX).for_each(|place| trace::link(span, place));
}

/// After a refused record, later records of its aggregate are held.
fn hold_back(results: &mut [EventResult], places: &[usize], records: &[Record]) {
    let mut refused: HashSet<&Aggregate> = HashSet::new();
    for (n, record) in places.iter().zip(records) {
        match results.get_mut(*n) {
            Some(EventResult::Failed(..)) => drop(refused.insert(&record.aggregate)),
            Some(open @ EventResult::Open) if refused.contains(&record.aggregate) => {
                *open = EventResult::Failed(FailedEventState::Held, 0, None);
            }
            _ => {}
        }
    }
}

async fn publish_in_time(
    publisher: &Arc<dyn Publisher>,
    records: &[Record],
    timeout: Duration,
) -> Vec<Outcome> {
    if records.is_empty() {
        return Vec::new();
    }
    match tokio::time::timeout(timeout, publisher.publish(records)).await {
        Ok(outcomes) => outcomes,
        Err(_) => {
            let why = format!("no answer within {timeout:?}");
            vec![Outcome::Unavailable { why }; records.len()]
        }
    }
}
