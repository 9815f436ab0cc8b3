//! Alerts from signal to channel, with a clock that the test moves.

mod job;
mod outbox;
mod pool;

use crate::{Bench, TTL, options};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::alert::silence::SilenceRequest;
use tidemill_domain::alert::{Aggregate, AlertState, Condition, Notice, Rule, RuleFields, Severity, Subject};
use tidemill_domain::audit::Actor;
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_engine::alert::{
    Alerting, BadAlerting, Channel, Delivered, Delivering, DeliveryError, Evaluated, LogChannel, Message,
    Observation, Observing, Signal, default_rules, signal,
};
use tidemill_engine::{EngineError, HeldLease, Process, SystemClock, reaper};
use tidemill_store::{Store, StoreError};
use tokio::sync::Notify;

const STEP: Duration = Duration::from_secs(5);

/// The lease to evaluate and deliver alerts.
async fn take_watch(process: &Process) -> Result<HeldLease, EngineError> {
    process.acquire(&LeaseKey::new("alert", "evaluator").unwrap(), Term::Process).await
}

/// Subjects with their values.
type Values = Vec<(&'static str, f64)>;

/// A signal that says what the test wants; none means that the look fails.
#[derive(Clone, Debug, Default)]
struct Scripted {
    says: Arc<Mutex<Option<Values>>>,
    looked: Arc<Notify>,
}

impl Scripted {
    fn says(&self, values: &[(&'static str, f64)]) {
        *self.says.lock().unwrap() = Some(values.to_vec());
    }

    fn fails(&self) {
        *self.says.lock().unwrap() = None;
    }
}

impl Signal for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn observe<'a>(&'a self, _store: &'a Store) -> Observing<'a> {
        self.looked.notify_one();
        let says = self.says.lock().unwrap().clone();
        let seen = says.ok_or(EngineError::Store(StoreError::ServerInRecovery)).map(|values| {
            let observation = |(subject, value)| Observation::new(Subject::new(subject).unwrap(), value);
            values.into_iter().map(observation).collect()
        });
        Box::pin(std::future::ready(seen))
    }
}

/// A channel that answers what the test wants and keeps what it was told.
#[derive(Clone, Debug, Default)]
struct Recorder {
    told: Arc<Mutex<Vec<Message>>>,
    refuses: Arc<Mutex<Option<DeliveryError>>>,
    panics: Arc<Mutex<bool>>,
}

impl Recorder {
    fn summaries(&self) -> Vec<String> {
        self.told.lock().unwrap().iter().map(|message| message.announcement.summary.clone()).collect()
    }

    fn refuses(&self, error: Option<DeliveryError>) {
        *self.refuses.lock().unwrap() = error;
    }
}

impl Channel for Recorder {
    fn name(&self) -> &str {
        "recorder"
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Delivering<'a> {
        Box::pin(async {
            let must_panic = *self.panics.lock().unwrap();
            assert!(!must_panic, "a channel with a fault");
            if let Some(error) = self.refuses.lock().unwrap().clone() {
                return Err(error);
            }
            self.told.lock().unwrap().push(message.clone());
            Ok(())
        })
    }
}

fn fields() -> RuleFields {
    RuleFields {
        name: "full".into(),
        signal: "scripted".into(),
        condition: Condition::Above(10.0),
        aggregate: Aggregate::Last,
        window: Duration::from_secs(60),
        hold: STEP * 2,
        severity: Severity::Critical,
        channels: vec!["recorder".into()],
    }
}

struct Alarm {
    bench: Bench,
    alerting: Alerting,
    signal: Scripted,
    channel: Recorder,
    process: Process,
    watch: HeldLease,
}

impl Alarm {
    async fn new(fields: RuleFields) -> Self {
        let bench = Bench::new().await;
        let (signal, channel) = (Scripted::default(), Recorder::default());
        let alerting = alerting(&bench, vec![fields], &signal, &channel);
        let process = bench.process("one").await;
        let watch = take_watch(&process).await.unwrap();
        Self { bench, alerting, signal, channel, process, watch }
    }

    async fn turn(&mut self) -> Evaluated {
        self.alerting.evaluator.run_once(&self.watch).await.unwrap()
    }

    async fn deliver(&self) -> Delivered {
        self.alerting.deliverer.run_once(&self.watch).await.unwrap()
    }

    /// Turns at the usual pace; what they did together.
    async fn turns(&mut self, count: u32) -> Evaluated {
        let mut all = Evaluated::default();
        for _ in 0..count {
            let done = self.turn().await;
            all.fired += done.fired;
            all.resolved += done.resolved;
            all.unobserved += done.unobserved;
            self.bench.clock.advance(STEP);
            self.process.heartbeat().await.unwrap();
        }
        all
    }

    async fn state(&self) -> AlertState {
        self.bench.store.read().await.unwrap().alerts().list(1).await.unwrap()[0].state
    }
}

fn alerting(bench: &Bench, fields: Vec<RuleFields>, signal: &Scripted, channel: &Recorder) -> Alerting {
    let rules = fields.into_iter().map(|fields| Rule::new(fields).unwrap()).collect();
    let signals: Vec<Box<dyn Signal>> = vec![Box::new(signal.clone())];
    Alerting::new(rules, signals, vec![Arc::new(channel.clone())], bench.clock.clone()).unwrap()
}

#[tokio::test]
async fn what_is_breached_for_long_enough_reaches_its_channel_and_so_does_its_end() {
    let mut alarm = Alarm::new(fields()).await;
    alarm.signal.says(&[("pool/a", 11.0), ("pool/b", 10.0)]);

    assert_eq!(alarm.turns(2).await.fired, 0);
    assert_eq!(alarm.deliver().await, Delivered::default());
    assert_eq!(alarm.turns(3).await.fired, 1);
    alarm.signal.says(&[("pool/a", 9.0), ("pool/b", 10.0)]);
    assert_eq!(alarm.turns(2).await.resolved, 1);
    assert_eq!(alarm.deliver().await, Delivered { arrived: 1, ..Delivered::default() });
    assert_eq!(alarm.deliver().await, Delivered { arrived: 1, ..Delivered::default() });

    assert_eq!(
        alarm.channel.summaries(),
        ["full fires for pool/a: scripted is 11, above 10", "full is over for pool/a: scripted is 9"]
    );
    let told = alarm.channel.told.lock().unwrap().clone();
    let announcement = &told[0].announcement;
    assert_eq!((announcement.notice, announcement.severity), (Notice::Fired, Severity::Critical));
    assert_eq!(announcement.at.since(announcement.since), STEP * 2);
    assert_eq!((announcement.threshold, announcement.value), (10.0, Some(11.0)));
    assert_eq!(announcement.to_json(), told[0].body);
}

#[tokio::test]
async fn a_short_breach_does_not_fire() {
    let mut alarm = Alarm::new(fields()).await;

    for _ in 0..5 {
        alarm.signal.says(&[("pool/a", 11.0)]);
        assert_eq!(alarm.turns(2).await.fired, 0);
        alarm.signal.says(&[("pool/a", 9.0)]);
        assert_eq!(alarm.turns(1).await.fired, 0);
    }

    assert_eq!(alarm.state().await, AlertState::Inactive);
}

#[tokio::test]
async fn a_mean_over_the_window_forgets_what_is_older() {
    let mean =
        RuleFields { aggregate: Aggregate::Average, window: STEP * 3, hold: Duration::ZERO, ..fields() };
    let mut alarm = Alarm::new(mean).await;
    alarm.signal.says(&[("pool/a", 0.0)]);
    assert_eq!(alarm.turns(4).await.fired, 0);

    // Of four samples in the window one is high, then two: 7.5 and 15 on the mean.
    alarm.signal.says(&[("pool/a", 30.0)]);

    assert_eq!(alarm.turns(1).await.fired, 0);
    assert_eq!(alarm.turns(1).await.fired, 1);
}

#[tokio::test]
async fn a_failed_look_changes_nothing() {
    let mut alarm = Alarm::new(fields()).await;
    alarm.signal.says(&[("pool/a", 11.0)]);
    alarm.turns(3).await;
    let firing = alarm.state().await;

    alarm.signal.fails();
    let done = alarm.turns(3).await;
    alarm.signal.says(&[("pool/a", f64::NAN)]);
    let no_number = alarm.turns(3).await;

    assert_eq!(done, Evaluated { unobserved: 3, ..Evaluated::default() });
    assert_eq!((no_number, alarm.state().await), (Evaluated::default(), firing));
    alarm.signal.says(&[("pool/a", 9.0)]);
    assert_eq!(alarm.turns(1).await.resolved, 1);
}

#[tokio::test]
async fn what_is_gone_is_over() {
    let mut alarm = Alarm::new(fields()).await;
    alarm.signal.says(&[("pool/a", 11.0), ("pool/b", 11.0)]);
    assert_eq!(alarm.turns(3).await.fired, 2);

    alarm.signal.says(&[("pool/b", 11.0)]);
    assert_eq!(alarm.turns(1).await.resolved, 1);
    alarm.alerting = alerting(&alarm.bench, vec![], &alarm.signal, &alarm.channel);
    assert_eq!(alarm.turns(1).await.resolved, 1);

    let open = alarm.bench.store.read().await.unwrap().alerts().open(10).await.unwrap();
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn a_ghost_evaluates_nothing_and_the_heir_goes_on_where_it_was() {
    let mut alarm = Alarm::new(fields()).await;
    alarm.signal.says(&[("pool/a", 11.0)]);
    alarm.turns(1).await;
    let two = alarm.bench.process("two").await;
    let refused = take_watch(&two).await;
    assert!(matches!(refused, Err(EngineError::LeaseHeld { .. })), "{refused:?}");
    alarm.bench.clock.advance(TTL);
    let heir = alarm.bench.process("three").await;
    let heir = take_watch(&heir).await.unwrap();
    let before = alarm.state().await;

    let ghost = alarm.alerting.evaluator.run_once(&alarm.watch).await;
    assert!(matches!(ghost, Err(EngineError::LeaseLost { .. })), "{ghost:?}");
    let ghost = alarm.alerting.deliverer.run_once(&alarm.watch).await;
    assert!(matches!(ghost, Err(EngineError::LeaseLost { .. })), "{ghost:?}");
    assert_eq!(alarm.state().await, before);

    let mut successor = alerting(&alarm.bench, vec![fields()], &alarm.signal, &alarm.channel);
    let done = successor.evaluator.run_once(&heir).await.unwrap();
    assert_eq!(done.fired, 1, "the time that had passed before the take-over counts");
}

#[tokio::test]
async fn a_write_of_a_ghost_that_does_not_know_it_yet_is_refused_by_the_database() {
    let mut alarm = Alarm::new(RuleFields { hold: Duration::ZERO, ..fields() }).await;
    alarm.signal.says(&[("pool/a", 11.0)]);
    // As an operator would: the lease is taken from its owner, whom nobody has told yet.
    let mut tx = alarm.bench.store.begin().await.unwrap();
    tx.execute_for_test("update tidemill_lease set epoch = epoch + 1").await.unwrap();
    tx.commit().await.unwrap();

    let refused = alarm.alerting.evaluator.run_once(&alarm.watch).await;

    assert!(matches!(refused, Err(EngineError::LeaseLost { .. })), "{refused:?}");
    assert!(alarm.bench.store.read().await.unwrap().alerts().list(10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_notice_is_tried_again_later_and_refused_for_good_only_once() {
    let mut alarm = Alarm::new(RuleFields { hold: Duration::ZERO, ..fields() }).await;
    alarm.signal.says(&[("pool/a", 11.0), ("pool/b", 11.0)]);
    alarm.turn().await;
    alarm.channel.refuses(Some(DeliveryError::temporary("busy")));

    assert_eq!(alarm.deliver().await, Delivered { waiting: 2, ..Delivered::default() });
    assert_eq!(alarm.deliver().await, Delivered::default(), "not before the backoff has passed");
    alarm.bench.clock.advance(Duration::from_secs(1));
    *alarm.channel.panics.lock().unwrap() = true;
    assert_eq!(alarm.deliver().await, Delivered { waiting: 2, ..Delivered::default() });
    *alarm.channel.panics.lock().unwrap() = false;
    alarm.channel.refuses(Some(DeliveryError::permanent("unknown receiver")));
    alarm.bench.clock.advance(Duration::from_secs(3));
    assert_eq!(alarm.deliver().await, Delivered { failed: 2, ..Delivered::default() });
    alarm.channel.refuses(None);
    alarm.bench.clock.advance(Duration::from_secs(2));
    assert_eq!(alarm.deliver().await, Delivered::default());

    let listed = alarm.bench.store.read().await.unwrap().alerts().deliveries(10).await.unwrap();
    assert_eq!(listed[0].last_error.as_deref(), Some("unknown receiver"));
    assert!(alarm.channel.summaries().is_empty());
}

#[tokio::test]
async fn a_notice_for_a_channel_that_was_taken_away_is_given_up() {
    let mut alarm = Alarm::new(RuleFields { hold: Duration::ZERO, ..fields() }).await;
    alarm.signal.says(&[("pool/a", 11.0)]);
    alarm.turn().await;

    let without = Alerting::new(vec![], vec![], vec![], alarm.bench.clock.clone()).unwrap();
    let done = without.deliverer.run_once(&alarm.watch).await.unwrap();

    assert_eq!(done, Delivered { failed: 1, ..Delivered::default() });
}

#[tokio::test]
async fn after_a_silence_people_hear_what_still_fires() {
    let mut alarm = Alarm::new(fields()).await;
    let request = SilenceRequest {
        rule: "full".into(),
        subject: None,
        length: STEP * 5,
        reason: "known".into(),
        actor: Actor::system(),
    };
    let mut tx = alarm.bench.store.begin().await.unwrap();
    tx.alerts().silence(&request).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    alarm.signal.says(&[("pool/a", 11.0)]);

    assert_eq!(alarm.turns(5).await.fired, 1);
    assert_eq!(alarm.deliver().await.arrived, 0);
    alarm.signal.fails();
    alarm.turns(1).await;

    assert_eq!(alarm.deliver().await.arrived, 1);
    assert_eq!(alarm.channel.summaries(), ["full fires for pool/a: scripted is 11, above 10"]);
}

#[tokio::test]
async fn the_shipped_rules_tell_of_a_process_that_died() {
    let bench = Bench::new().await;
    let signals = signal::known(bench.clock.clone());
    let channels: Vec<Arc<dyn Channel>> = vec![Arc::new(LogChannel)];
    let mut alerting = Alerting::new(default_rules(), signals, channels, bench.clock.clone()).unwrap();
    let _silent = bench.process("silent").await;
    bench.clock.advance(TTL);
    let process = bench.process("two").await;
    let watch = take_watch(&process).await.unwrap();
    assert_eq!(alerting.evaluator.run_once(&watch).await.unwrap(), Evaluated::default());

    reaper::run_once(&bench.store).await.unwrap();

    let done = alerting.evaluator.run_once(&watch).await.unwrap();
    assert_eq!(done, Evaluated { fired: 1, ..Evaluated::default() });
    assert_eq!(alerting.deliverer.run_once(&watch).await.unwrap().arrived, 1);
    for _ in 0..40 {
        bench.clock.advance(TTL / 2);
        process.heartbeat().await.unwrap();
    }
    let done = alerting.evaluator.run_once(&watch).await.unwrap();
    assert_eq!(done, Evaluated { resolved: 1, ..Evaluated::default() });
}

#[tokio::test]
async fn rules_without_their_signal_or_channel_are_refused() {
    let bench = Bench::new().await;
    let check = |rules: Vec<RuleFields>, expected: BadAlerting| {
        let rules = rules.into_iter().map(|fields| Rule::new(fields).unwrap()).collect();
        let signals: Vec<Box<dyn Signal>> = vec![Box::new(Scripted::default())];
        let channels: Vec<Arc<dyn Channel>> = vec![Arc::new(Recorder::default())];
        let refused = Alerting::new(rules, signals, channels, bench.clock.clone());
        assert_eq!(refused.unwrap_err(), expected);
    };

    let (rule, signal, channel) = ("full".to_owned(), "script".to_owned(), "pager".to_owned());
    let deaf = RuleFields { signal: signal.clone(), ..fields() };
    check(vec![deaf], BadAlerting::UnknownSignal { rule: rule.clone(), signal });
    let mute = RuleFields { channels: vec![channel.clone()], ..fields() };
    check(vec![mute], BadAlerting::UnknownChannel { rule: rule.clone(), channel });
    check(vec![fields(), fields()], BadAlerting::SameName { name: rule });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_processes_keeps_the_watch_and_another_takes_over() {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    let clock = Arc::new(SystemClock::new());
    let rules = || vec![Rule::new(RuleFields { hold: Duration::ZERO, ..fields() }).unwrap()];
    let channel = Recorder::default();
    let start = async |name: &str| {
        let process = Process::start(store.clone(), clock.clone(), options(name, TTL)).await.unwrap();
        let signal = Scripted::default();
        signal.says(&[("pool/a", 11.0)]);
        let channels: Vec<Arc<dyn Channel>> = vec![Arc::new(channel.clone())];
        let alerting =
            Alerting::new(rules(), vec![Box::new(signal.clone())], channels, clock.clone()).unwrap();
        tokio::spawn(alerting.run(process.clone()));
        (process, signal)
    };
    let limit = crate::SOON;

    let (one, first) = start("one").await;
    tokio::time::timeout(limit, first.looked.notified()).await.expect("the first one looks");
    let (_two, second) = start("two").await;
    let early = tokio::time::timeout(Duration::from_millis(300), second.looked.notified()).await;
    assert!(early.is_err(), "two have the watch");
    one.stop().await.unwrap();
    tokio::time::timeout(limit, second.looked.notified()).await.expect("the second one takes over");

    let told = async {
        while channel.summaries().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(limit, told).await.expect("the notice is delivered");
}
