//! One group: a producer that ousts all others of its name, and what the last receipt says.
//!
//! Invariant: nothing is sent by a producer that has not read the last receipt since it ousted the others, and nothing
//! that is on a receipt is sent again. A receipt names what its transaction sends and all that was sent before and the
//! database may not know of. And nobody ousts others whose own lease may be over: the rightful owner may have published
//! and settled what its last receipt does not name any more.

use crate::delivery::{Report, Wave};
use crate::failure::ErrorClass;
use crate::order::Batch;
use crate::producer::{Pace, Producer, Sent};
use crate::publisher::{KafkaPublisher, Sending, Verdict};
use crate::receipt::Receipts;
use crate::transaction::{self, Trouble};
use rdkafka::types::RDKafkaErrorCode;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::receipt::fingerprint;
use tidemill_domain::outbox::{Aggregate, EventId, Group, Receipt, Record};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::LeaseGuard;
use tidemill_engine::outbox::{NotTaken, Outcome, SinkRefusal};
use tokio::sync::Mutex as Turn;

/// How long the producer is left alone when it is full.
const WHEN_FULL: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct HeldGroup {
    group: Group,
    /// The name of its producers.
    id: String,
    plain: Arc<KafkaPublisher>,
    receipts: Receipts,
    clock: Arc<dyn Clock>,
    /// In the lease of the slots.
    guard: LeaseGuard,
    /// What was published and the database may not know of: this is what receipts name.
    published: Mutex<BTreeMap<EventId, u64>>,
    is_ousted: AtomicBool,
    line: Turn<Line>,
}

/// What one publication at a time has.
#[derive(Debug, Default)]
struct Line {
    system: Option<String>,
    /// Taken out while it is used: whoever gives up in the middle leaves none.
    producer: Option<Arc<Producer>>,
    /// What the last producer may have sent: the last receipt tells.
    doubtful: BTreeMap<EventId, u64>,
    /// How the next producer sends. Kept from one publication to the next: finding out who of many is refused may take
    /// longer than one of them may.
    pace: Pace,
}

enum Transacted {
    Committed,
    /// It never was, and why.
    Aborted(Verdict, String),
    Lost(String),
}

impl HeldGroup {
    pub(crate) fn new(
        (group, transactional_id): (Group, &str),
        plain: Arc<KafkaPublisher>,
        receipts: Receipts,
        clock: Arc<dyn Clock>,
        guard: LeaseGuard,
    ) -> Self {
        Self {
            group,
            id: format!("{transactional_id}-{group}"),
            plain,
            receipts,
            clock,
            guard,
            published: Mutex::default(),
            is_ousted: AtomicBool::new(false),
            line: Turn::default(),
        }
    }

    pub(crate) fn is_ousted(&self) -> bool {
        self.is_ousted.load(Ordering::Acquire)
    }

    /// The database knows of these.
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

    /// Ousts whoever had it; the events on its last receipt.
    pub(crate) async fn take(
        &self,
        system: Option<&str>,
        within: Duration,
    ) -> Result<Vec<EventId>, NotTaken> {
        let mut line = self.line.lock().await;
        *line = Line { system: system.map(str::to_owned), ..Line::default() };
        let (producer, receipt) = self.oust(&line, within).await?;
        let published = receipt.map_or_else(BTreeMap::new, |receipt| receipt.published);
        let events = published.keys().copied().collect();
        *self.published() = published;
        line.producer = Some(producer);
        Ok(events)
    }

    /// Another producer after one that is gone. What that one may have sent is on the last receipt, or was not sent.
    async fn take_again(&self, line: &mut Line, within: Duration) -> Result<(), NotTaken> {
        let (producer, receipt) = self.oust(line, within).await?;
        let doubtful = std::mem::take(&mut line.doubtful);
        let on_receipt = receipt.map_or_else(BTreeMap::new, |receipt| receipt.published);
        let sent = doubtful.into_iter().filter(|(id, print)| on_receipt.get(id) == Some(print));
        self.published().extend(sent);
        line.producer = Some(producer);
        Ok(())
    }

    async fn oust(
        &self,
        line: &Line,
        within: Duration,
    ) -> Result<(Arc<Producer>, Option<Receipt>), NotTaken> {
        let until = self.clock.monotonic().plus(within);
        let unavailable = |why: String| NotTaken::Unavailable { why };
        self.check_guard()?;
        let producer = Producer::transactional(&self.plain.options, &self.id, line.pace);
        let producer = Arc::new(producer.map_err(|error| unavailable(error.to_string()))?);
        transaction::init(&producer, within).await.map_err(|trouble| {
            let complaint = producer.complaint().unwrap_or_default();
            unavailable(format!("{}: {} {complaint}", self.id, trouble.why()).trim_end().to_owned())
        })?;
        // Whoever takes over after this ousts what was just made. Before it somebody may have.
        self.check_guard()?;
        let receipt = self.receipts.read(self.group, self.left(until)).await?;
        match receipt {
            Some(receipt) if !receipt.may_be_of(line.system.as_deref()) => {
                Err(of_another(&self.id, &receipt, line))
            }
            receipt => Ok((producer, receipt)),
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
        until.since(self.clock.monotonic()).max(Duration::from_millis(1))
    }

    /// Publishes records of this group, all together or not at all, except those that are refused or were sent before.
    pub(crate) async fn publish(&self, records: &[Record]) -> Vec<Outcome> {
        let limit = self.plain.options.delivery_timeout;
        let until = self.clock.monotonic().plus(limit);
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

    /// One transaction after the other until nothing is left to be sent; why something is left, otherwise.
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
                // After a failure the producer and the brokers may count differently, so another one goes on.
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

    /// What is on the receipt was delivered. If an event of an aggregate was changed since, it goes out again, and those
    /// behind it too, so that the last word of the aggregate is the right one.
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
        if let Err(trouble) = transaction::begin(producer) {
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
            let receipt = Receipt::new(line.system.clone(), named);
            let place = (&wave, sending.places.len());
            loop {
                match self.receipts.send(self.group, &receipt, producer, place) {
                    Sent::Queued => break,
                    Sent::Full => tokio::time::sleep(WHEN_FULL).await,
                    Sent::Failed(code) => break wave.report(place.1, Report::Failed(code)),
                    Sent::Closed => break wave.report(place.1, Report::Failed(RDKafkaErrorCode::PurgeQueue)),
                }
            }
        }
        let is_failing = tokio::select! {
            () = wave.decided() => wave.has_failed(),
            () = producer.transaction_fails() => true,
        };
        if is_failing || sent.is_empty() {
            let aborted = patiently(|| self.left(until), |within| transaction::abort(producer, within));
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
        match patiently(|| self.left(until), |within| transaction::commit(producer, within)).await {
            Ok(()) => {
                self.published().extend(sent);
                self.judge(batch, &sending, line.pace, true);
                Transacted::Committed
            }
            // Even if the client wants to abort now: the brokers may have committed, and it would not know.
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

    /// What the producer has got of a wave.
    fn sent(&self, batch: &Batch<'_>, prints: &[u64], sending: &Sending) -> BTreeMap<EventId, u64> {
        let reports = sending.wave.reports();
        let places = sending.places.iter().zip(&reports);
        places
            .filter(|(_, report)| !matches!(report, Report::Refused(_) | Report::NotSent))
            .filter_map(|(n, _)| print_of(batch, prints, *n))
            .collect()
    }

    /// Why the receipt of a wave will never be taken, if that is so: then no event is to blame, and somebody has to act.
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

    /// Writes down what is known of a wave whose transaction is over.
    fn judge(&self, batch: &mut Batch<'_>, done: &Sending, pace: Pace, is_committed: bool) -> Verdict {
        let mut verdict = Verdict::Clean;
        for (n, report) in done.places.iter().copied().zip(done.wave.reports()) {
            match report {
                Report::Delivered if is_committed => batch.deliver(n),
                // What arrived is undone with the rest.
                Report::Delivered => verdict = verdict.and(Verdict::Failed(RDKafkaErrorCode::PurgeInflight)),
                report => {
                    verdict = verdict.and(self.plain.judge(batch, n, report, (pace, done.places.len())))
                }
            }
        }
        verdict
    }
}

/// Asks again as long as there is no answer and time is left.
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
