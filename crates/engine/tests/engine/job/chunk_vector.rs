//! The vectors of the real Spring Batch for one chunk step, through the API that authors use, on both databases.

use super::Stand;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::fault::{FaultPolicy, Kinds};
use tidemill_domain::job::step::OFFSET_KEY;
use tidemill_domain::job::{BatchStatus, Counters, JobParameters};
use tidemill_engine::item::ItemsReader;
use tidemill_engine::job::listener::{ChunkListener, SkipListener};
use tidemill_engine::job::{ChunkScope, Delivery, ItemStream, ItemWriter, Job, Step, StepScope};
use tidemill_engine::testing::TestRun;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::long_or;

tidemill_store::on_both![
    chunk_steps_do_what_the_real_engine_did,
    chunk_steps_with_four_threads_do_what_the_real_engine_did_with_one,
    random_chunk_steps_do_what_the_real_engine_did,
    random_chunk_steps_go_on_where_the_real_engine_did,
    a_scan_in_one_transaction_counts_as_the_real_engine_did,
];

const VECTORS: &str = include_str!("../../../../../vectors/spring_batch_5.2.6/chunk.txt");

const RANDOM: &str = include_str!("../../../../../vectors/spring_batch_5.2.6/chunk_random.txt");

const RESTARTED: &str = include_str!("../../../../../vectors/spring_batch_5.2.6/chunk_restart.txt");

/// Items that fail, and how often.
#[derive(Clone, Default)]
struct Fails(Arc<Mutex<BTreeMap<i64, u32>>>);

const ALWAYS: u32 = u32::MAX;

impl Fails {
    fn hits(&self, item: i64) -> bool {
        match self.0.lock().unwrap().get_mut(&item) {
            None | Some(0) => false,
            Some(&mut ALWAYS) => true,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

/// What happened, in the notation of the vectors.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }
}

impl ChunkListener for Trace {
    fn after_chunk(&self, _: &StepScope, _: &Counters) {
        self.note("|C");
    }

    fn after_chunk_error(&self, _: &StepScope, _: &Counters) {
        self.note("|R");
    }
}

impl SkipListener<i64, i64> for Trace {
    fn on_skip_in_read(&self, _: &ItemError) {
        self.note("SR");
    }

    fn on_skip_in_process(&self, item: &i64, _: &ItemError) {
        self.note(format!("SP{item}"));
    }

    fn on_skip_in_write(&self, item: &i64, _: &ItemError) {
        self.note(format!("SW{item}"));
    }
}

#[derive(Clone)]
struct Writer {
    trace: Trace,
    fails: Fails,
    is_concurrent: bool,
}

impl ItemStream for Writer {}

impl ItemWriter<i64> for Writer {
    async fn write(&mut self, items: &[i64], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        self.trace.note(format!("w{items:?}"));
        // The transaction is begun, so that each rollback is a real one.
        chunk.tx().await?;
        match items.iter().find(|item| self.fails.hits(**item)) {
            Some(item) => Err(ItemError::new(ErrorKind::WRITE, format!("boom {item}"))),
            None => Ok(()),
        }
    }

    fn is_concurrent(&self) -> bool {
        self.is_concurrent
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }
}

/// How a vector is run.
#[derive(Clone, Copy, Debug)]
enum Threads {
    One,
    /// Four that process, and one writer.
    Four,
    /// Four that process and write, where the database allows it.
    FourWriting,
    /// One, without a listener that sees each commit: a scan is one transaction.
    OneUnobserved,
}

impl Threads {
    /// What of a trace has to be the same. Chunks are processed at the same time, and perhaps written, also behind one
    /// that is the end.
    fn fixed(self, trace: &str) -> String {
        let is_fixed = |call: &&str| match self {
            Self::One => true,
            Self::Four => !call.starts_with('p'),
            Self::FourWriting => !call.starts_with(['p', 'w']),
            Self::OneUnobserved => !call.starts_with('|'),
        };
        calls(trace).filter(is_fixed).collect::<Vec<_>>().join(" ")
    }
}

/// The calls in a trace; the items of a write belong together.
fn calls(trace: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    trace.split(move |c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ' ' && depth == 0
    })
}

/// What a vector describes in its title.
#[derive(Default)]
struct Case {
    items: i64,
    size: usize,
    read: Fails,
    process: Fails,
    write: Fails,
    filter: BTreeSet<i64>,
    policy: Option<FaultPolicy>,
    /// Whether nothing fails any more after the first run.
    heals: bool,
}

impl Case {
    fn heal(&self) {
        for fails in [&self.read, &self.process, &self.write] {
            fails.0.lock().unwrap().clear();
        }
    }

    fn described(title: &str) -> Self {
        let mut case = Self { items: 5, size: 2, ..Self::default() };
        let mut policy = FaultPolicy::default();
        if title.contains("4 items") {
            case.items = 4;
        }
        if title.contains("chunk 5") {
            case.size = 5;
        }
        let words: Vec<&str> = title.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        for (place, word) in words.iter().enumerate() {
            let fails = match *word {
                "read" => &case.read,
                "process" => &case.process,
                "write" => &case.write,
                _ => continue,
            };
            let numbers = words[place + 1..].iter().skip_while(|word| matches!(**word, "skip" | "fails"));
            let numbers = numbers.map_while(|word| word.parse::<i64>().ok());
            fails.0.lock().unwrap().extend(numbers.map(|item| (item, ALWAYS)));
        }
        if !title.contains("no skip") {
            policy.skip = Kinds::all();
        }
        if title.starts_with("skipLimit 1") {
            policy.skip_limit = 1;
        }
        if title.starts_with("retry 3") {
            policy.retry = Kinds::all();
            policy.attempts_max = 3;
        }
        if title.contains("noRollback") {
            policy.no_rollback = Kinds::all();
        }
        policy.is_processor_transactional = !title.contains("nonTx");
        case.policy = (!title.starts_with("plain")).then_some(policy);
        case
    }

    /// The same for a random vector, whose title has pairs of names and values.
    fn described_by_pairs(title: &str) -> Self {
        let pairs: BTreeMap<&str, &str> =
            title.split(' ').map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
        let number = |name: &str| pairs.get(name).map(|text| text.parse::<u32>().unwrap());
        let listed = |name: &str| pairs.get(name).into_iter().flat_map(|text| text.split(','));
        let fails = |name: &str| {
            let item = |text: &str| match text.split_once('x') {
                Some((item, times)) => (item.parse().unwrap(), times.parse().unwrap()),
                None => (text.parse().unwrap(), ALWAYS),
            };
            Fails(Arc::new(Mutex::new(listed(name).map(item).collect())))
        };
        let kinds = |name: &str| Kinds::of(listed(name).map(ErrorKind::named));
        let policy = FaultPolicy {
            skip: kinds("skip"),
            skip_limit: number("limit").unwrap_or(0).into(),
            retry: kinds("retry"),
            attempts_max: number("attempts").unwrap_or(1),
            no_rollback: kinds("noRollback"),
            is_processor_transactional: !pairs.contains_key("nonTx"),
        };
        Self {
            items: number("items").unwrap().into(),
            size: usize::try_from(number("chunk").unwrap()).unwrap(),
            read: fails("read"),
            process: fails("process"),
            write: fails("write"),
            filter: listed("filter").map(|text| text.parse().unwrap()).collect(),
            policy: (!pairs.contains_key("plain")).then_some(policy),
            heals: pairs.contains_key("heals"),
        }
    }

    fn job(&self, name: &str, trace: &Trace, threads: Threads) -> Job {
        let (items, read) = (self.items, self.read.clone());
        let (process, write) = (self.process.clone(), self.write.clone());
        let filter = self.filter.clone();
        let (seen, sink) = (trace.clone(), trace.clone());
        let is_concurrent = matches!(threads, Threads::FourWriting);
        let mut step = Step::chunk("s", self.size)
            .reader(ItemsReader::new("r", 1..=items).failing_on(move |item| read.hits(*item)))
            .process(move |item: &i64| {
                seen.note(format!("p{item}"));
                if process.hits(*item) {
                    return Err(ItemError::new(ErrorKind::PROCESS, format!("boom {item}")));
                }
                Ok((!filter.contains(item)).then_some(*item))
            })
            .writer(Writer { trace: sink, fails: write, is_concurrent })
            .threads(if matches!(threads, Threads::Four | Threads::FourWriting) { 4 } else { 1 })
            .skip_listener(trace.clone());
        if !matches!(threads, Threads::OneUnobserved) {
            step = step.chunk_listener(trace.clone());
        }
        if let Some(policy) = &self.policy {
            step = step.fault_policy(policy.clone());
        }
        Job::new(name).step(step.build())
    }
}

fn summary(run: &TestRun) -> String {
    let step = run.step("s").unwrap();
    let c = step.counters;
    format!(
        "{} read={} write={} filter={} rs={} ps={} ws={} commit={} rollback={}",
        step.status,
        c.read,
        c.write,
        c.filter,
        c.read_skip,
        c.process_skip,
        c.write_skip,
        c.commit,
        c.rollback
    )
}

/// The number behind `name=` in the context of a vector.
fn number(end: &str, name: &str) -> Option<i64> {
    let (_, rest) = end.split_once(name)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

async fn check(stand: &Stand, threads: Threads) {
    assert_eq!(compare(stand, threads, VECTORS, Case::described, 1).await, 16);
}

/// Compares every `every`th vector; returns how many there are. A vector without a title restarts the one before it.
async fn compare(
    stand: &Stand,
    threads: Threads,
    vectors: &str,
    described: fn(&str) -> Case,
    every: usize,
) -> usize {
    let mut lines = vectors.lines().peekable();
    let mut cases = 0;
    let mut last = None;
    while let Some(head) = lines.next() {
        let at = head.find("COMPLETED").or_else(|| head.find("FAILED")).unwrap();
        let (title, expected) = (head[..at].trim(), head[at..].trim());
        // The real engine also calls the writer with nothing to write.
        let expected_trace = lines.next().unwrap().split(" w[]").collect::<String>();
        let expected_trace = expected_trace.trim();
        let end = lines.next_if(|line| line.contains("exit=FAILED"));
        cases += usize::from(!title.is_empty());
        if cases % every != 0 {
            continue;
        }
        let (title, case, trace, job) = match last.take() {
            Some((title, case, trace, job)) if head.starts_with(' ') => (title, case, trace, job),
            _ => {
                let (trace, case) = (Trace::default(), described(title));
                let name = format!("vector-{}-{cases}-{threads:?}", vectors.len());
                let job = case.job(&name, &trace, threads);
                (title, case, trace, job)
            }
        };

        let run = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

        let seen = std::mem::take(&mut *trace.0.lock().unwrap()).join(" ");
        if case.heals {
            case.heal();
        }
        last = Some((title, case, trace, job));
        let title = format!("{title}, {threads:?}");
        let expected = (expected, threads.fixed(expected_trace));
        assert_eq!((summary(&run).as_str(), threads.fixed(&seen)), expected, "{title}");
        for call in calls(expected_trace).filter(|call| call.starts_with('p')) {
            let count = |trace: &str| calls(trace).filter(|other| *other == call).count();
            assert!(count(&seen) >= count(expected_trace), "{title}: {call} in {seen}");
        }
        let step = run.step("s").unwrap();
        assert_eq!(run.end.status, step.status, "{title}");
        let context = run.context("s").unwrap();
        if let Some(end) = end {
            assert_eq!(step.exit.code, "FAILED", "{title}");
            assert!(!step.exit.description.is_empty(), "{title}");
            // Before the first commit, the real engine stores zero and ours nothing.
            let read = |count: Option<i64>| count.unwrap_or(0);
            let (ours, expected) = (context.get_long("r.read.count"), number(end, "r.read.count="));
            assert_eq!(read(ours), read(expected), "{title}");
            assert_eq!(context.get_long(OFFSET_KEY), number(end, "OFFSET="), "{title}");
        } else {
            assert_eq!(run.end.status, BatchStatus::Completed, "{title}");
            assert_eq!(context.get_long(OFFSET_KEY), None, "{title}");
        }
    }
    cases
}

async fn chunk_steps_do_what_the_real_engine_did(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    check(&stand, Threads::One).await;
}

async fn chunk_steps_with_four_threads_do_what_the_real_engine_did_with_one(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    check(&stand, Threads::Four).await;
    check(&stand, Threads::FourWriting).await;
}

async fn random_chunk_steps_do_what_the_real_engine_did(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let every = long_or(1, 5);
    assert_eq!(compare(&stand, Threads::One, RANDOM, Case::described_by_pairs, every).await, 300);
}

async fn random_chunk_steps_go_on_where_the_real_engine_did(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let every = long_or(1, 5);
    assert_eq!(compare(&stand, Threads::One, RESTARTED, Case::described_by_pairs, every).await, 200);
}

async fn a_scan_in_one_transaction_counts_as_the_real_engine_did(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    check(&stand, Threads::OneUnobserved).await;
    let every = long_or(1, 5);
    assert_eq!(compare(&stand, Threads::OneUnobserved, RANDOM, Case::described_by_pairs, every).await, 300);
}
