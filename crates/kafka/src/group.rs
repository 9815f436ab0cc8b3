//! One group: a producer that fences all others with its transactional id, and the last receipt.
//!
//! Invariant: a producer sends nothing until it has fenced the others and then read the last receipt, and it never
//! resends an event on that receipt. A receipt names the events of its transaction and every earlier event the database
//! may not have settled. A process fences others only while its own lease is valid: otherwise the rightful owner may
//! already have published and settled events that its last receipt no longer names.

use crate::delivery::{Report, Wave};
use crate::failure::ErrorClass;
use crate::order::Batch;
use crate::producer::{Pace, Producer, Trouble};
use crate::publisher::{KafkaPublisher, Sending, Verdict};
use crate::receipt::Receipts;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::receipt::fingerprint;
use tidemill_domain::outbox::{Aggregate, EventId, Group, Receipt, Record};
use tidemill_domain::time::Monotonic;
use tidemill_engine::LeaseGuard;
use tidemill_engine::outbox::{NotTaken, Outcome, SinkRefusal};
use tokio::sync::Mutex as Turn;

#[derive(Debug)]
pub(crate) struct HeldGroup {
    group: Group,
    /// The transactional id.
    id: String,
    plain: Arc<KafkaPublisher>,
    receipts: Receipts,
    /// The lease on the slots.
    guard: LeaseGuard,
    /// Published events that the database may not have settled; receipts name these.
    published: Mutex<BTreeMap<EventId, u64>>,
    is_ousted: AtomicBool,
    line: Turn<Line>,
}

/// State that one publication at a time uses.
#[derive(Debug, Default)]
struct Line {
    system: Option<String>,
    /// Taken out while in use, so a cancelled publication leaves none.
    producer: Option<Arc<Producer>>,
    /// Events the previous producer may have sent; the last receipt decides.
    doubtful: BTreeMap<EventId, u64>,
    /// How the next producer sends. Kept between publications: finding the rejected record of a batch may take longer
    /// than one of them.
    pace: Pace,
}

enum Transacted {
    Committed,
    /// Nothing was published, and why.
    Aborted(Verdict, String),
    Lost(String),
}

impl HeldGroup {
    pub(crate) fn new(
        (group, transactional_id): (Group, &str),
        plain: Arc<KafkaPublisher>,
        receipts: Receipts,
        guard: LeaseGuard,
    ) -> Self {
        Self {
            group,
            id: format!("{transactional_id}-{group}"),
            plain,
            receipts,
            guard,
            published: Mutex::default(),
            is_ousted: AtomicBool::new(false),
            line: Turn::default(),
        }
    }

    pub(crate) fn is_ousted(&self) -> bool {
        self.is_ousted.load(Ordering::Acquire)
    }

    /// The database has settled these events.
    pub(crate) fn settled(&self, events: &[EventId]) {
        let mut published = self.published();
        if !published.is_empty() {
            for id in events {
                published.remove(id);
            }
        }
    }

    fn published(&self) -> std::sync::MutexGuard<'_, BTreeMap<EventId, u64>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fences the previous owner; returns the events on its last receipt.
    pub(crate) async fn take(
        &self,
        system: Option<&str>,
        within: Duration,
    ) -> Result<Vec<EventId>, NotTaken> {
        let mut line = self.line.lock().await;
        *line = Line { system: system.map(str::to_owned), ..Line::default() };
        let (producer, published) = self.oust(&line, within).await?;
        let events = published.keys().copied().collect();
        *self.published() = published;
        line.producer = Some(producer);
        Ok(events)
    }

    /// Replaces a producer that is gone. Everything that one may have sent is on the last receipt.
    async fn take_again(&self, line: &mut Line, within: Duration) -> Result<(), NotTaken> {
        let (producer, on_receipt) = self.oust(line, within).await?;
        let doubtful = std::mem::take(&mut line.doubtful);
        let sent = doubtful.into_iter().filter(|(id, print)| on_receipt.get(id) == Some(print));
        self.published().extend(sent);
        line.producer = Some(producer);
        Ok(())
    }

    /// A producer that has fenced all others, and the events on their last receipt.
    async fn oust(
        &self,
        line: &Line,
        within: Duration,
    ) -> Result<(Arc<Producer>, BTreeMap<EventId, u64>), NotTaken> {
        let until = self.receipts.clock.monotonic().plus(within);
        let unavailable = |why: String| NotTaken::Unavailable { why };
        self.check_guard()?;
        let producer = Producer::transactional(&self.plain.options, &self.id, line.pace);
        let producer = Arc::new(producer.map_err(|error| unavailable(error.to_string()))?);
        producer.init(within).await.map_err(|trouble| {
            let complaint = producer.complaint().unwrap_or_default();
            unavailable(format!("{}: {} {complaint}", self.id, trouble.why()).trim_end().to_owned())
        })?;
        // A later owner fences this producer; but one may have come before it.
        self.check_guard()?;
        let receipt = self.receipts.read(self.group, self.left(until)).await?;
        match receipt {
            Some(receipt) if !receipt.may_be_of(line.system.as_deref()) => {
                Err(of_another(&self.id, &receipt, line))
            }
            receipt => Ok((producer, receipt.map(|receipt| receipt.published).unwrap_or_default())),
        }
    }

    fn check_guard(&self) -> Result<(), NotTaken> {
        if !self.guard.may_act() {
            let why = format!("the lease is over, and others may have {}", self.group);
            return Err(NotTaken::Unavailable { why });
        }
        Ok(())
    }

    fn left(&self, until: Monotonic) -> Duration {
        until.since(self.receipts.clock.monotonic()).max(Duration::from_millis(1))
    }

    /// Publishes records of this group atomically, except those that are rejected or were sent before.
    pub(crate) async fn publish(&self, records: &[Record]) -> Vec<Outcome> {
        let limit = self.plain.options.delivery_timeout;
        let until = self.receipts.clock.monotonic().plus(limit);
        let prints: Vec<u64> = records.iter().map(fingerprint).collect();
        let mut batch = Batch::new(records, &self.plain.options.topics);
        let work = async {
            let mut line = self.line.lock().await;
            self.work(&mut line, &mut batch, &prints, until).await
        };
        let why = match tokio::time::timeout(limit, work).await {
            Ok(why) => why,
            Err(_) => format!("no commit of {} within {limit:?}", self.id),
        };
        batch.settle(&why).outcomes
    }

    /// Runs transactions until nothing is left to send; otherwise returns why something is left.
    async fn work(&self, line: &mut Line, batch: &mut Batch<'_>, prints: &[u64], until: Monotonic) -> String {
        let why = loop {
            if self.is_ousted() {
                break format!("somebody else has a producer {}", self.id);
            }
            self.pass_over(batch, prints);
            let places = batch.whole_wave();
            if places.is_empty() {
                break String::new();
            }
            let Some(producer) = line.producer.take() else {
                match self.take_again(line, self.left(until)).await {
                    Ok(()) => continue,
                    Err(NotTaken::Unavailable { why }) => break why,
                    Err(NotTaken::Refused(refusal)) => break refusal.what,
                }
            };
            match self.plain.look_at_topics(batch, &places, &producer).await {
                Ok(true) => {}
                Ok(false) => {
                    line.producer = Some(producer);
                    continue;
                }
                Err(why) => {
                    line.producer = Some(producer);
                    break why;
                }
            }
            line.doubtful = places.iter().filter_map(|n| print_of(batch, prints, *n)).collect();
            match self.transact(line, batch, prints, (places, &producer), until).await {
                Transacted::Committed | Transacted::Aborted(Verdict::Clean, _) => {
                    line.doubtful.clear();
                    line.producer = Some(producer);
                }
                // After a failure the producer and the brokers may disagree on sequence numbers, so use a new producer.
                Transacted::Aborted(verdict, why) => {
                    line.doubtful.clear();
                    match verdict {
                        Verdict::Failed(_) => break why,
                        Verdict::Suspected => line.pace = Pace::Singly,
                        Verdict::Blamed | Verdict::Clean => {}
                    }
                }
                Transacted::Lost(why) => {
                    producer.close();
                    break why;
                }
            }
        };
        if why.is_empty() && line.pace == Pace::Singly {
            line.pace = Pace::Together;
            line.producer = None;
        }
        why
    }

    /// Skips events on the receipt. If an event of an aggregate has changed since, it and the following events are sent
    /// again, so that the aggregate's last event is the right one.
    fn pass_over(&self, batch: &mut Batch<'_>, prints: &[u64]) {
        let published = self.published();
        if published.is_empty() {
            return;
        }
        let mut changed: HashSet<&Aggregate> = HashSet::new();
        for n in batch.whole_wave() {
            let (Some(record), Some(print)) = (batch.records.get(n), prints.get(n)) else { continue };
            match published.get(&record.id) {
                Some(known) if known == print && !changed.contains(&record.aggregate) => batch.deliver(n),
                Some(_) => drop(changed.insert(&record.aggregate)),
                None => {}
            }
        }
    }

    async fn transact(
        &self,
        line: &Line,
        batch: &mut Batch<'_>,
        prints: &[u64],
        (places, producer): (Vec<usize>, &Arc<Producer>),
        until: Monotonic,
    ) -> Transacted {
        if let Err(trouble) = producer.begin() {
            return self.lost(trouble);
        }
        let wave = Arc::new(Wave::new(places.len() + 1));
        let sending = Sending { wave: wave.clone(), places };
        self.plain.send(batch, &sending, producer).await;
        let sent = self.sent(batch, prints, &sending);
        if sent.is_empty() || wave.has_failed() {
            wave.report(sending.places.len(), Report::NotSent);
        } else {
            let mut named = self.published().clone();
            named.extend(&sent);
            let receipt = Receipt::new(line.system.clone(), named).to_json();
            let place = (self.receipts.topic.as_str(), i32::from(self.group.get()));
            let (key, n) = (self.group.to_string(), sending.places.len());
            if let Err(code) = producer.send_text(place, (&key, &receipt), (&wave, n)).await {
                wave.report(n, Report::Failed(code));
            }
        }
        let is_failing = tokio::select! {
            () = wave.decided() => wave.has_failed(),
            () = producer.transaction_fails() => true,
        };
        if is_failing || sent.is_empty() {
            let aborted = patiently(|| self.left(until), |within| producer.abort(within));
            if let Err(trouble) = aborted.await {
                return self.lost(trouble);
            }
            let complaint = producer.complaint().unwrap_or_default();
            let verdict = self.judge(batch, &sending, line.pace, false);
            if let Some((code, why)) = self.refused_receipt(&sending) {
                return Transacted::Aborted(verdict.and(Verdict::Failed(code)), why);
            }
            let why = format!("a record did not arrive {complaint}");
            return Transacted::Aborted(verdict, why.trim_end().to_owned());
        }
        match patiently(|| self.left(until), |within| producer.commit(within)).await {
            Ok(()) => {
                self.published().extend(sent);
                self.judge(batch, &sending, line.pace, true);
                Transacted::Committed
            }
            // Even if the client wants to abort now: the brokers may have committed.
            Err(trouble) => self.lost(trouble),
        }
    }

    fn lost(&self, trouble: Trouble) -> Transacted {
        if let Trouble::Ousted(why) = &trouble {
            tracing::error!(producer = %self.id, "the producer {} of this process was ousted: {why}", self.id);
            self.is_ousted.store(true, Ordering::Release);
        }
        Transacted::Lost(trouble.why().to_owned())
    }

    /// The events of a wave that the producer has.
    fn sent(&self, batch: &Batch<'_>, prints: &[u64], sending: &Sending) -> BTreeMap<EventId, u64> {
        let reports = sending.wave.reports();
        let places = sending.places.iter().zip(&reports);
        places
            .filter(|(_, report)| !matches!(report, Report::Refused(_) | Report::NotSent))
            .filter_map(|(n, _)| print_of(batch, prints, *n))
            .collect()
    }

    /// Why the receipt of a wave can never be written, if so: then no event is at fault, and an operator has to act.
    fn refused_receipt(&self, done: &Sending) -> Option<(RDKafkaErrorCode, String)> {
        let reports = done.wave.reports();
        let Some(Report::Failed(code)) = reports.get(done.places.len()) else { return None };
        let (group, topic) = (self.group, &self.receipts.topic);
        let helps = match ErrorClass::of(*code) {
            ErrorClass::Record => "lower outbox.batch_size or raise message.max.bytes".to_owned(),
            ErrorClass::Topic => format!("let this relay write to the topic {topic}"),
            ErrorClass::Sink => return None,
        };
        Some((*code, format!("the receipt of {group} is refused: {code}; {helps}")))
    }

    /// Records the outcome of a wave whose transaction is over.
    fn judge(&self, batch: &mut Batch<'_>, done: &Sending, pace: Pace, is_committed: bool) -> Verdict {
        let mut verdict = Verdict::Clean;
        for (n, report) in done.places.iter().copied().zip(done.wave.reports()) {
            match report {
                Report::Delivered if is_committed => batch.deliver(n),
                // The abort undoes it.
                Report::Delivered => verdict = verdict.and(Verdict::Failed(RDKafkaErrorCode::PurgeInflight)),
                report => {
                    verdict = verdict.and(self.plain.judge(batch, n, report, (pace, done.places.len())))
                }
            }
        }
        verdict
    }
}

/// Retries while there is no answer and time is left.
async fn patiently<F: Future<Output = Result<(), Trouble>>>(
    left: impl Fn() -> Duration,
    ask: impl Fn(Duration) -> F,
) -> Result<(), Trouble> {
    loop {
        match ask(left()).await {
            Err(Trouble::Late(why)) if left() <= Duration::from_millis(1) => return Err(Trouble::Lost(why)),
            Err(Trouble::Late(_)) => {}
            done => return done,
        }
    }
}

fn print_of(batch: &Batch<'_>, prints: &[u64], n: usize) -> Option<(EventId, u64)> {
    Some((batch.records.get(n)?.id, *prints.get(n)?))
}

fn of_another(id: &str, receipt: &Receipt, line: &Line) -> NotTaken {
    let name = |system: &Option<String>| system.clone().unwrap_or_else(|| "unknown".to_owned());
    let (theirs, ours) = (name(&receipt.system), name(&line.system));
    NotTaken::Refused(SinkRefusal {
        code: Code::ReceiptsOfAnother,
        what: format!("the receipts of {id} are of the database {theirs}, and this one is {ours}"),
        fix: "set outbox.kafka.transactional_id to a name that no other database has".to_owned(),
    })
}
