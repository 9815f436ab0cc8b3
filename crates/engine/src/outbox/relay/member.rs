//! A relay that has joined: its state, how it keeps its lease, and its main loop.

use super::{Relay, SinkDown, short_pause, warn};
use crate::outbox::relay::attached::AttachedTables;
use crate::outbox::relay::batch::Batch;
use crate::outbox::relay::effort::PollCounters;
use crate::outbox::relay::group::Groups;
use crate::outbox::{SinkRefusal, keeper};
use crate::{LeaseGuard, SystemIds, metrics, transact};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{Aggregate, Cursor, EventId, JoinRefusal, RelayId, Slot, Snapshot};
use tidemill_domain::time::Monotonic;
use tidemill_store::outbox::relay::{Joining, Looking, RelayFence, View};
use tidemill_store::outbox::{EVENTS, SLOTS};
use tidemill_store::wakeup::{Wakeup, Woken};
use tidemill_store::{StoreError, Tx};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Shortest time between two reads that find little, so that single events become batches.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// After this many looks, a position that moved without an event is saved, so that a successor need not read far back.
const LOOKS_PER_POSITION: u32 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EndReason {
    Stopped,
    /// It could not renew in time, by its own clock.
    Lapsed,
    /// Others have retired it, its row has changed, or the server has crashed.
    Fenced,
    /// The database is another one than before: positions have to be read again.
    Moved,
    /// Its sink has been down for long, and other relays may have a working one.
    Aside,
    /// Its sink will never accept anything again.
    SinkGone,
    /// Another relay has taken its groups at the sink.
    Ousted,
    /// Its sink refuses its groups, and a person has to act.
    Refused,
}

#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) relay: &'a Relay,
    pub(super) id: RelayId,
    pub(super) acks: i64,
    pub(super) cursors: Vec<Cursor>,
    pub(super) epochs: BTreeMap<Slot, Epoch>,
    /// Aggregates that have an open failed event. Extra ones are harmless: their events become failed events too.
    pub(super) blocked: HashSet<Aggregate>,
    pub(super) floor: EventId,
    pub(super) guard: LeaseGuard,
    pub(super) counters: PollCounters,
    timeline: Option<String>,
    looks: u32,
    pub(super) look_at: Monotonic,
    pub(super) is_idle: bool,
    is_due: bool,
    pub(super) sink_down: Option<SinkDown>,
    pub(super) has_published: bool,
    pub(super) attached: AttachedTables,
    pub(super) groups: Groups,
    pub(super) refusal: Option<SinkRefusal>,
    /// The keeper, while this relay has the first slot.
    keeping: JoinSet<()>,
    /// Silent relays with damaged rows that were already logged.
    pub(super) damaged: HashSet<RelayId>,
}

impl<'a> Member<'a> {
    /// Refused if its settings contradict those of the others.
    pub(super) async fn join(relay: &'a Relay) -> Result<Result<Self, JoinRefusal>, StoreError> {
        let sink = relay.publisher.name();
        let joining = Joining {
            id: SystemIds.relay(),
            process: relay.options.process,
            identity: &relay.options.identity,
            sink: &sink,
            instance: relay.options.instance,
            lease: relay.options.lease,
        };
        // Before any snapshot is trusted.
        relay.store.check_outbox().await?;
        let sent = relay.clock.monotonic();
        let mut tx = relay.store.begin().await?;
        let joined = tx.outbox().join(&joining).await?;
        tx.commit().await?;
        if let Err(refusal) = joined {
            return Ok(Err(refusal));
        }
        tracing::info!(relay.id = %joining.id, "relay {} has joined and publishes to {sink}", joining.id);
        Ok(Ok(Self {
            relay,
            id: joining.id,
            acks: 0,
            cursors: Vec::new(),
            epochs: BTreeMap::new(),
            blocked: HashSet::new(),
            floor: EventId::ZERO,
            guard: LeaseGuard::new(relay.clock.clone(), relay.options.lease, sent),
            counters: PollCounters::default(),
            timeline: None,
            looks: 0,
            look_at: sent,
            is_idle: false,
            is_due: false,
            sink_down: None,
            has_published: false,
            attached: AttachedTables::default(),
            groups: Groups::default(),
            refusal: None,
            keeping: JoinSet::new(),
            damaged: HashSet::new(),
        }))
    }

    /// Works until it is told to stop.
    pub(super) async fn work(&mut self, stop: &mut watch::Receiver<bool>) -> Result<(), EndReason> {
        // Registered before the first look, so that no wake-up is missed.
        let (mut events, mut slots) = (self.relay.store.wakeup(EVENTS), self.relay.store.wakeup(SLOTS));
        let mut ahead = None;
        while !*stop.borrow() {
            if self.look_at <= self.now() {
                self.look(&mut ahead).await?;
                if std::mem::take(&mut self.is_due) {
                    self.publish_due(stop).await?;
                }
            }
            self.serve_attached(stop).await?;
            let found = match ahead.take() {
                None if !self.is_idle => self.read_patiently().await?,
                found => found,
            };
            let Some(batch) = found else {
                if !self.attached.is_due(self.now()) {
                    self.rest(&mut events, &mut slots, stop).await;
                }
                continue;
            };
            if batch.is_empty() {
                self.cursors = batch.advanced(&self.cursors, 0);
                self.is_idle = batch.is_last() && self.cursors.len() == 1;
                continue;
            }
            let started = self.now();
            ahead = self.publish(batch, stop).await?;
            if ahead.is_none() {
                // Few events, so wait a moment for more.
                let spent = self.now().since(started);
                tokio::time::sleep(GATHER.saturating_sub(spent)).await;
            }
        }
        Ok(())
    }

    async fn rest(&mut self, events: &mut Wakeup, slots: &mut Wakeup, stop: &mut watch::Receiver<bool>) {
        let left = self.look_at.since(self.now());
        tokio::select! {
            woken = events.wait(left) => self.is_idle = woken == Woken::TimedOut,
            woken = slots.wait(left) => if woken == Woken::Called { self.look_at = self.now() },
            _told = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// Renews the lease, and shares slots.
    async fn look(&mut self, ahead: &mut Option<Batch>) -> Result<(), EndReason> {
        self.looks = self.looks.wrapping_add(1);
        let is_at_rest = matches!(self.cursors.as_slice(), [only] if only.window.to.is_none());
        let writes = is_at_rest && self.looks.is_multiple_of(LOOKS_PER_POSITION);
        let view = self.view(writes).await?;
        let now = self.now();
        self.look_at = now.plus(self.relay.options.poll);
        self.acks = view.acks;
        self.floor = view.floor;
        self.is_due = view.is_due;
        self.check_server(&view)?;
        self.check_sink(&view)?;
        if !self.epochs.is_empty() {
            self.counters.polled(!view.has_events);
        }
        if is_at_rest && !view.has_events {
            for cursor in &mut self.cursors {
                cursor.window.from = view.snapshot.clone().max(cursor.window.from.clone());
            }
        } else {
            self.is_idle = false;
        }
        if view.has_lapsed && self.retire().await {
            self.look_at = now;
        }
        self.share(&view, ahead).await?;
        self.hold_groups().await?;
        self.see_attached(view.attached).await?;
        self.keep();
        Ok(())
    }

    /// The relay that has the first slot maintains the outbox. That is safe even if several do, so it needs no lease. A
    /// round that is interrupted is rolled back; the next keeper begins with one.
    fn keep(&mut self) {
        if !self.epochs.contains_key(&Slot::new(0)) {
            self.keeping.abort_all();
            self.keeping = JoinSet::new();
        } else if self.keeping.is_empty() {
            let (store, options) = (self.relay.store.clone(), self.relay.options.keeper.clone());
            self.keeping.spawn(keeper::run(store, options));
        }
    }

    async fn view(&mut self, writes: bool) -> Result<View, EndReason> {
        let mut failures = 0;
        loop {
            match self.try_view(writes).await {
                Ok(Some(view)) => return Ok(view),
                Ok(None) => return Err(EndReason::Fenced),
                Err(error) => {
                    // The number of acknowledgements tells what was written, if anything.
                    self.wait_after(&error, "the relay could not look around", &mut failures).await?;
                    self.reload().await?;
                }
            }
        }
    }

    pub(super) async fn try_view(&self, writes: bool) -> Result<Option<View>, StoreError> {
        let slots: Vec<Slot> = self.epochs.keys().copied().collect();
        let nothing = Snapshot::up_to(0);
        let from = self.cursors.first().map_or(&nothing, |cursor| &cursor.window.from);
        let cursors = writes.then_some(self.cursors.as_slice());
        let looking = Looking { fence: self.fence(), from, slots: &slots, cursors };
        let sent = self.now();
        self.counters.queried(1);
        let view = self
            .in_time(async {
                let mut tx = self.relay.store.alone().await?;
                let view = tx.outbox().look_around(&looking).await?;
                tx.commit().await?;
                Ok(view)
            })
            .await?;
        if view.is_some() {
            self.guard.renew(sent);
        }
        Ok(view)
    }

    /// Snapshots of another history of the server mean something else.
    pub(super) fn check_server(&mut self, view: &View) -> Result<(), EndReason> {
        let is_ahead = self.cursors.iter().any(|cursor| cursor.window.from.xmax() > view.snapshot.xmax());
        if is_ahead || self.timeline.is_some() && self.timeline != view.timeline {
            tracing::warn!(relay.id = %self.id, "the database is not the one of before; relay {} begins anew", self.id);
            return Err(EndReason::Moved);
        }
        self.timeline.clone_from(&view.timeline);
        Ok(())
    }

    /// Reads the saved state of this relay, when the answer to a change was lost.
    pub(super) async fn reload(&mut self) -> Result<(), EndReason> {
        let mut failures = 0;
        loop {
            let loading = self.in_time(async {
                // Waits for a change of our own that may still be in progress.
                let mut tx = self.relay.store.begin().await?;
                let Some(position) = tx.outbox().lock_relay_position(self.id).await? else { return Ok(None) };
                let slots: Vec<Slot> = position.2.iter().map(|(slot, _)| *slot).collect();
                let blocked = tx.outbox().blocked(&slots).await?;
                tx.commit().await?;
                Ok(Some((position, blocked)))
            });
            match loading.await {
                Ok(Some(((acks, cursors, epochs), blocked))) => {
                    self.acks = acks;
                    self.cursors = cursors;
                    self.epochs = epochs.into_iter().collect();
                    self.blocked = blocked.into_iter().map(|(_, aggregate)| aggregate).collect();
                    self.is_idle = false;
                    return Ok(());
                }
                Ok(None) => return Err(EndReason::Fenced),
                Err(error) => {
                    self.wait_after(&error, "the relay could not read its position", &mut failures).await?;
                }
            }
        }
    }

    /// Logs a failure and waits before the next attempt; an error once the lease is no longer valid.
    pub(super) async fn wait_after(
        &self,
        error: &StoreError,
        what: &str,
        failures: &mut u32,
    ) -> Result<(), EndReason> {
        warn(error, what);
        *failures += 1;
        tokio::time::sleep(short_pause(*failures).min(self.guard.remaining())).await;
        if self.guard.may_act() { Ok(()) } else { Err(EndReason::Lapsed) }
    }

    /// Limits the work to the rest of the lease.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(self.guard.remaining().max(Duration::from_millis(1)), work).await {
            Ok(done) => done,
            Err(_) => Err(StoreError::Unreachable {
                place: self.relay.store.place(),
                source: tidemill_store::sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()),
            }),
        }
    }

    /// Renews the lease during work that may take longer than it.
    pub(super) async fn while_alive<T>(&self, work: impl Future<Output = T>) -> Result<T, EndReason> {
        let beating = async {
            loop {
                tokio::time::sleep(self.relay.options.lease / 4).await;
                match self.try_view(false).await {
                    Ok(Some(_)) => {}
                    Ok(None) => return EndReason::Fenced,
                    Err(error) => warn(&error, "the relay could not renew its lease"),
                }
            }
        };
        // A process that was frozen notices the end of its lease before it continues to work.
        tokio::select! {
            biased;
            () = self.guard.over() => Err(EndReason::Lapsed),
            ended = beating => Err(ended),
            done = work => Ok(done),
        }
    }

    /// Acknowledges so many published events, and makes a change in the same transaction.
    pub(super) async fn change<T>(
        &mut self,
        published: usize,
        work: impl AsyncFnOnce(&mut Tx) -> Result<T, StoreError>,
    ) -> Result<Result<T, StoreError>, EndReason> {
        let sent = self.now();
        let changing = self.in_time(async {
            let mut tx = self.relay.store.begin().await?;
            if !tx.outbox().acknowledge(self.fence(), &self.cursors, published as u64).await? {
                return Ok(None);
            }
            let done = work(&mut tx).await?;
            tx.commit().await?;
            Ok(Some(done))
        });
        let changed = changing.await;
        self.acknowledged(sent, changed)
    }

    /// A change under the fence counts as an acknowledgement if it was made.
    pub(super) fn acknowledged<T>(
        &mut self,
        sent: Monotonic,
        changed: Result<Option<T>, StoreError>,
    ) -> Result<Result<T, StoreError>, EndReason> {
        match changed {
            Ok(Some(done)) => {
                self.guard.acknowledged(sent);
                self.acks += 1;
                Ok(Ok(done))
            }
            Ok(None) => Err(EndReason::Fenced),
            Err(error) => Ok(Err(error)),
        }
    }

    pub(super) fn fence(&self) -> RelayFence<'_> {
        let timeline = self.timeline.as_deref();
        let effort = self.counters.so_far();
        RelayFence { id: self.id, acks: self.acks, lease: self.relay.options.lease, timeline, effort }
    }

    pub(super) fn now(&self) -> Monotonic {
        self.relay.clock.monotonic()
    }

    /// Leaves if possible; otherwise the lease expires.
    pub(super) async fn end(&self, ended: EndReason) {
        metrics::outbox_slots().set(0.0);
        let id = self.id;
        match ended {
            EndReason::Stopped => tracing::info!(relay.id = %id, "relay {id} stops and leaves its slots"),
            EndReason::Lapsed => {
                tracing::error!(relay.id = %id, "relay {id} could not renew its lease and has given up its slots")
            }
            EndReason::Fenced => {
                metrics::fencing_rejections("outbox_slot").increment(1);
                tracing::error!(relay.id = %id, "relay {id} was given up by others, or its database has crashed; it joins anew");
            }
            EndReason::Aside => tracing::error!(
                relay.id = %id,
                "{} has taken nothing for long; relay {id} leaves its slots to the others for a while",
                self.relay.publisher.name()
            ),
            EndReason::Ousted => tracing::error!(
                relay.id = %id,
                "relay {id} was ousted from {}, by somebody else or because it was silent for too long; it joins anew",
                self.relay.publisher.name()
            ),
            EndReason::Moved | EndReason::SinkGone | EndReason::Refused => {}
        }
        self.relay.publisher.leave(&[]);
        let leaving = transact(&self.relay.store, async |tx| tx.outbox().leave(id).await);
        match tokio::time::timeout(self.relay.options.lease, leaving).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, relay.id = %id, "relay {id} could not say that it ends"),
            Err(_) => tracing::warn!(relay.id = %id, "relay {id} could not say in time that it ends"),
        }
    }
}
