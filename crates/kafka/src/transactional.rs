//! Kafka as a sink with transactions: the records of a group are committed together with their receipt, or not at all.
//! Readers with `isolation.level=read_committed` see each event once.

use crate::group::HeldGroup;
use crate::options::{KafkaError, KafkaOptions};
use crate::producer::{Pace, Producer};
use crate::publisher::KafkaPublisher;
use crate::receipt::Receipts;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::outbox::event::check_topic;
use tidemill_domain::outbox::relay::transactional_sink;
use tidemill_domain::outbox::{EventId, Group, Record};
use tidemill_domain::time::Clock;
use tidemill_engine::LeaseGuard;
use tidemill_engine::outbox::publisher::{Publishing, Taking};
use tidemill_engine::outbox::{NotTaken, Outcome, Publisher};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

/// Timeout for taking a group. The brokers first end its last owner's transaction.
const TAKEN_WITHIN: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub struct TransactionalPublisher {
    id: String,
    /// For records of attached tables.
    plain: Arc<KafkaPublisher>,
    receipts: Receipts,
    is_prepared: OnceCell<()>,
    groups: Mutex<BTreeMap<Group, Arc<HeldGroup>>>,
}

impl TransactionalPublisher {
    /// Checks the settings. It does not connect, so the brokers may be down. `id` is the prefix of the transactional
    /// ids; no other database may use it.
    pub fn new(
        options: KafkaOptions,
        id: impl Into<String>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, KafkaError> {
        let id = id.into();
        if id.is_empty() || check_topic(&format!("{id}-receipts")).is_err() {
            return Err(KafkaError::TransactionalId(id.chars().take(300).collect()));
        }
        // Fail now if the client rejects its settings.
        drop(Producer::transactional(&options, &id, Pace::Together)?);
        let receipts = Receipts::new(&options, &id, clock.clone());
        let plain = Arc::new(KafkaPublisher::new(options, clock)?);
        Ok(Self { id, plain, receipts, is_prepared: OnceCell::new(), groups: Mutex::default() })
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<Group, Arc<HeldGroup>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Publisher for TransactionalPublisher {
    fn name(&self) -> String {
        transactional_sink(&self.id, &self.plain.options.bootstrap_servers)
    }

    /// Groups run concurrently.
    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        Box::pin(async move {
            let mut shares: BTreeMap<Group, (Vec<usize>, Vec<Record>)> = BTreeMap::new();
            for (n, record) in records.iter().enumerate() {
                let (places, share) = shares.entry(Group::of(record.slot)).or_default();
                places.push(n);
                share.push(record.clone());
            }
            let not_taken = |group| Outcome::Unavailable { why: format!("the group {group} is not taken") };
            let mut outcomes: Vec<Outcome> =
                records.iter().map(|record| not_taken(Group::of(record.slot))).collect();
            let mut publishing = JoinSet::new();
            for (group, (places, share)) in shares {
                let Some(held) = self.groups().get(&group).cloned() else { continue };
                publishing.spawn(async move { (places, held.publish(&share).await) });
            }
            while let Some(published) = publishing.join_next().await {
                let Ok((places, answers)) = published else { continue };
                for (place, answer) in places.into_iter().zip(answers) {
                    if let Some(outcome) = outcomes.get_mut(place) {
                        *outcome = answer;
                    }
                }
            }
            outcomes
        })
    }

    fn take<'a>(&'a self, groups: &'a [Group], system: Option<&'a str>, guard: &'a LeaseGuard) -> Taking<'a> {
        Box::pin(async move {
            let preparing = self.is_prepared.get_or_try_init(|| self.receipts.prepare(TAKEN_WITHIN));
            if let Err(why) = preparing.await {
                return vec![Err(why); groups.len()];
            }
            let mut taking = JoinSet::new();
            for (n, group) in groups.iter().enumerate() {
                let (plain, receipts) = (self.plain.clone(), self.receipts.clone());
                let held = HeldGroup::new((*group, &self.id), plain, receipts, guard.clone());
                let held = Arc::new(held);
                let system = system.map(str::to_owned);
                taking.spawn(async move {
                    let taken = held.take(system.as_deref(), TAKEN_WITHIN).await;
                    (n, held, taken)
                });
            }
            let unknown = || Err(NotTaken::Unavailable { why: "nobody answered".to_owned() });
            let mut answers: Vec<_> = groups.iter().map(|_| unknown()).collect();
            while let Some(taken) = taking.join_next().await {
                let Ok((n, held, taken)) = taken else { continue };
                if let (Some(answer), Some(group)) = (answers.get_mut(n), groups.get(n)) {
                    if taken.is_ok() {
                        self.groups().insert(*group, held);
                    }
                    *answer = taken;
                }
            }
            answers
        })
    }

    fn leave(&self, groups: &[Group]) {
        self.groups().retain(|group, _| !groups.is_empty() && !groups.contains(group));
    }

    fn settled(&self, events: &[EventId]) {
        let groups: Vec<Arc<HeldGroup>> = self.groups().values().cloned().collect();
        groups.iter().for_each(|held| held.settled(events));
    }

    fn is_ousted(&self) -> bool {
        self.groups().values().any(|held| held.is_ousted())
    }

    fn beside(&self) -> Option<Arc<dyn Publisher>> {
        Some(self.plain.clone())
    }
}
