//! The task that decides: gathers commands, decides them in one pass, and answers after the commit. In between it
//! expires tickets, and looks for decisions of other processes.

use super::PoolError;
use crate::pool::metering::Meter;
use crate::pool::pools::{Directory, PoolOptions};
use crate::{FailureLog, SystemClock, transact};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::{Answer, Command, PoolName, State, TicketId};
use tidemill_domain::time::Clock;
use tidemill_store::pool::{Lapses, POOL_CHANGED, PassRequest, PoolCache};
use tidemill_store::{Store, StoreError};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::MissedTickBehavior;

const AT_ONCE: usize = 256;

/// How often tickets expire, and queues advance that only time moves.
const TICK: Duration = Duration::from_secs(2);

/// How often to look for decisions of other processes if no wake-up arrives, while requests wait here.
const LOOK: Duration = Duration::from_millis(500);

type Reply = oneshot::Sender<Result<Answer, PoolError>>;

#[derive(Debug)]
pub(super) enum Call {
    Command(Box<Command>, Reply),
    Watch(Watch),
    /// Rest until the next call.
    Rest(oneshot::Sender<()>),
}

pub(super) async fn run(
    store: Store,
    options: PoolOptions,
    mut calls: mpsc::Receiver<Call>,
    directory: Arc<Directory>,
    meter: Arc<Meter>,
) {
    let mut wakeup = store.wakeup(POOL_CHANGED);
    let mut decider = Decider {
        store,
        options,
        directory,
        meter,
        clock: SystemClock::default(),
        cache: PoolCache::default(),
        watches: Watches::default(),
        unclaimed: Vec::new(),
        failures: FailureLog::default(),
        is_resting: false,
    };
    let mut gathered = Vec::with_capacity(AT_ONCE);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // First, so that a flood of requests does not keep expired tickets alive.
            biased;
            _instant = ticks.tick(), if !decider.is_resting => decider.tick().await,
            count = calls.recv_many(&mut gathered, AT_ONCE) => {
                if count == 0 {
                    return;
                }
                if std::mem::take(&mut decider.is_resting) {
                    // First, because much may have expired meanwhile.
                    ticks.reset();
                    decider.tick().await;
                }
                decider.decide(std::mem::take(&mut gathered)).await;
            }
            _woken = wakeup.wait(LOOK), if !decider.is_resting => decider.look().await,
        }
    }
}

struct Decider {
    store: Store,
    options: PoolOptions,
    directory: Arc<Directory>,
    meter: Arc<Meter>,
    clock: SystemClock,
    cache: PoolCache,
    watches: Watches,
    /// Granted to callers that were gone before the answer.
    unclaimed: Vec<Command>,
    failures: FailureLog,
    /// Until the next call.
    is_resting: bool,
}

impl Decider {
    async fn decide(&mut self, calls: Vec<Call>) {
        let mut commands = Vec::with_capacity(calls.len());
        let mut replies = Vec::with_capacity(calls.len());
        let mut rests = Vec::new();
        for call in calls {
            match call {
                Call::Command(command, reply) => {
                    commands.push(*command);
                    replies.push(reply);
                }
                Call::Watch(watch) => self.watches.add(watch),
                Call::Rest(reply) => rests.push(reply),
            }
        }
        self.beats(&mut commands, &mut replies).await;
        if !commands.is_empty() {
            let answers = self.passes(&commands, Lapses::Left).await;
            for (answer, reply) in answers.into_iter().zip(replies) {
                self.tell(reply, answer);
            }
        }
        let unclaimed = std::mem::take(&mut self.unclaimed);
        if !unclaimed.is_empty() {
            self.passes(&unclaimed, Lapses::Left).await;
        }
        self.watches.call(&self.cache);
        for reply in rests {
            self.is_resting = true;
            // The caller may be gone.
            let _gone = reply.send(());
        }
    }

    /// Renews tickets that are running, which needs no pass; the other heartbeats remain for one.
    async fn beats(&self, commands: &mut Vec<Command>, replies: &mut Vec<Reply>) {
        let beat = |command: &Command| match command {
            Command::Heartbeat { ticket, epoch, .. } => Some((*ticket, *epoch)),
            _ => None,
        };
        let beats: Vec<(TicketId, Epoch)> = commands.iter().filter_map(beat).collect();
        if beats.is_empty() {
            return;
        }
        let renewed = transact(&self.store, async |tx| tx.pools().renew_tickets(&beats).await).await;
        let alive = match renewed {
            Ok(alive) => alive,
            // The pass will return the same error.
            Err(error) => return tracing::debug!(%error, "heartbeats could not be stored"),
        };
        for (command, reply) in std::mem::take(commands).into_iter().zip(std::mem::take(replies)) {
            if beat(&command).is_some_and(|(ticket, _)| alive.contains(&ticket)) {
                // The caller may be gone.
                let _gone = reply.send(Ok(Answer::Alive));
            } else {
                commands.push(command);
                replies.push(reply);
            }
        }
    }

    /// One pass over all pools of the commands, or one per command if that fails.
    async fn passes(&mut self, commands: &[Command], lapses: Lapses) -> Vec<Result<Answer, PoolError>> {
        match self.pass(commands, lapses).await {
            Ok(answers) => answers,
            // One bad command or pool must not stop the others.
            Err(error) if commands.len() > 1 && !is_of_the_database(&error) => {
                let mut answers = Vec::with_capacity(commands.len());
                for command in commands {
                    match self.pass(std::slice::from_ref(command), lapses).await {
                        Ok(alone) => answers.extend(alone),
                        Err(error) => answers.push(Err(error.into())),
                    }
                }
                answers
            }
            Err(error) => {
                tracing::warn!(%error, "a pass over pools failed");
                let error = PoolError::from(error);
                commands.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }

    /// A pass, repeated over more pools while waiting requests need them. Decisions of the first pass stay, even if
    /// a later one fails.
    async fn pass(
        &mut self,
        commands: &[Command],
        lapses: Lapses,
    ) -> Result<Vec<Result<Answer, PoolError>>, StoreError> {
        let mut pools: BTreeSet<PoolName> = commands.iter().flat_map(Command::pools).collect();
        let outcome = self.one_pass(&pools, commands, lapses).await?;
        let mut wider = outcome.wider;
        let mut answers: Vec<Result<Answer, PoolError>> = outcome.answers.into_iter().map(Ok).collect();
        loop {
            let mut again = Vec::new();
            for (index, answer) in answers.iter().enumerate() {
                if let Ok(Answer::Wider(more)) = answer {
                    wider.extend(more.iter().cloned());
                    again.push(index);
                }
            }
            if wider.is_subset(&pools) {
                return Ok(answers);
            }
            pools.append(&mut wider);
            let repeated: Vec<Command> =
                again.iter().filter_map(|index| commands.get(*index)).cloned().collect();
            let next = match self.one_pass(&pools, &repeated, lapses).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(%error, "a pass over more pools failed");
                    let error = PoolError::from(error);
                    for index in again {
                        if let Some(place) = answers.get_mut(index) {
                            *place = Err(error.clone());
                        }
                    }
                    return Ok(answers);
                }
            };
            wider = next.wider;
            for (index, answer) in again.into_iter().zip(next.answers) {
                if let Some(place) = answers.get_mut(index) {
                    *place = Ok(answer);
                }
            }
        }
    }

    async fn one_pass(
        &mut self,
        pools: &BTreeSet<PoolName>,
        commands: &[Command],
        lapses: Lapses,
    ) -> Result<tidemill_domain::pool::pass::Outcome, StoreError> {
        let request = PassRequest { pools, commands, pace: self.options.pace, lapses };
        let begun = self.clock.monotonic();
        let outcome = self.store.pool_pass(&mut self.cache, &request).await?;
        self.meter.note(commands, &outcome, self.clock.monotonic().since(begun));
        Ok(outcome)
    }

    /// Units granted to a caller that is gone are set aside for a while.
    fn tell(&mut self, reply: Reply, answer: Result<Answer, PoolError>) {
        let Err(Ok(Answer::Admitted { parts, is_duplicate: false })) = reply.send(answer) else { return };
        self.unclaimed.extend(parts.into_iter().map(|part| Command::Unclaim {
            pool: part.pool,
            ticket: part.ticket.id,
            epoch: part.ticket.epoch,
        }));
    }

    /// Looks for decisions of other processes about pools that requests here wait for.
    async fn look(&mut self) {
        let pools = self.watches.pools();
        if pools.is_empty() {
            return;
        }
        let refreshed = self.store.pool_refresh(&mut self.cache, &pools).await;
        self.note(&refreshed);
        match refreshed {
            Ok(gone) if gone => self.watches.call_all(),
            Ok(_) => self.watches.call(&self.cache),
            Err(_) => {}
        }
    }

    /// Expires tickets, and advances the queues.
    async fn tick(&mut self) {
        let due = self.due().await;
        self.note(&due);
        let Ok(due) = due else { return };
        for pool in due {
            let looks = [Command::Look { pool }];
            self.passes(&looks, Lapses::Sought).await;
        }
        // Here too, because a flood of requests leaves no time in between.
        self.look().await;
    }

    async fn due(&self) -> Result<BTreeSet<PoolName>, StoreError> {
        let mut tx = self.store.read().await?;
        let due = tx.pools().due().await?;
        self.directory.refresh(&mut tx).await?;
        Ok(due)
    }

    fn note<T>(&mut self, looked: &Result<T, StoreError>) {
        match looked {
            Ok(_) => self.failures.succeeded("looking at pools"),
            Err(error) => _ = self.failures.failed("looking at pools", error),
        }
    }
}

/// Whether the error concerns the whole database: then every other command would fail as well.
fn is_of_the_database(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unreachable { .. }
            | StoreError::OutcomeUnknown(_)
            | StoreError::Busy(_)
            | StoreError::ConnectionsExhausted(_)
    )
}

/// A request that waits for units. It is notified when its ticket leaves the queue, and then asks again.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// Its ticket, or one of them: all tickets of a request leave the queue together.
    pub(super) pool: PoolName,
    pub(super) ticket: TicketId,
    pub(super) call: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Watches {
    tickets: HashMap<TicketId, Vec<Watch>>,
}

impl Watches {
    fn add(&mut self, watch: Watch) {
        self.tickets.entry(watch.ticket).or_default().push(watch);
    }

    /// Pools with waiting requests. Drops requests whose caller is gone.
    fn pools(&mut self) -> BTreeSet<PoolName> {
        self.tickets.retain(|_, watches| {
            watches.retain(|watch| Arc::strong_count(&watch.call) > 1);
            !watches.is_empty()
        });
        self.tickets.values().flatten().map(|watch| watch.pool.clone()).collect()
    }

    /// Notifies requests whose tickets have left the queue.
    fn call(&mut self, cache: &PoolCache) {
        self.tickets.retain(|ticket, watches| {
            let Some(first) = watches.first() else { return false };
            let Some(ledger) = cache.ledger(&first.pool) else { return true };
            let is_waiting = ledger.ticket(*ticket).is_some_and(|known| known.state == State::Waiting);
            if !is_waiting {
                watches.iter().for_each(|watch| watch.call.notify_one());
            }
            is_waiting
        });
    }

    /// Notifies all: their pool may be gone.
    fn call_all(&mut self) {
        for watch in self.tickets.drain().flat_map(|(_, watches)| watches) {
            watch.call.notify_one();
        }
    }
}
