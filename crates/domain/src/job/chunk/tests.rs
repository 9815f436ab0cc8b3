//! Vectors of the real Spring Batch, and properties: whatever fails, no item is lost or settled twice.

use super::*;
use crate::job::fault::Kinds;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const VECTORS: &str = include_str!("../../../../../vectors/spring_batch_5.2.6/chunk.txt");

const RANDOM: &str = include_str!("../../../../../vectors/spring_batch_5.2.6/chunk_random.txt");

/// Items that fail, and how often.
type Fails = BTreeMap<usize, u32>;

const ALWAYS: u32 = u32::MAX;

fn fails(fails: &mut Fails, item: usize) -> bool {
    match fails.get_mut(&item) {
        None | Some(0) => false,
        Some(&mut ALWAYS) => true,
        Some(left) => {
            *left -= 1;
            true
        }
    }
}

/// What goes wrong, and what the step tolerates.
#[derive(Clone, Debug, Default)]
struct Case {
    items: usize,
    size: usize,
    fails_read: Fails,
    fails_process: Fails,
    fails_write: Fails,
    filters: BTreeSet<usize>,
    policy: Option<FaultPolicy>,
}

/// The observed behaviour of a step.
#[derive(Debug, Default)]
struct Seen {
    trace: String,
    counters: Counters,
    failure: Option<Failure>,
    committed: Vec<usize>,
    announced: Vec<usize>,
    filtered: BTreeSet<usize>,
    offset: usize,
}

impl Seen {
    fn note(&mut self, text: &str) {
        let _infallible = write!(self.trace, "{}{text}", if self.trace.is_empty() { "" } else { " " });
    }
}

/// Drives a whole step. The items are 1, 2, 3, …
fn run(case: &Case) -> Seen {
    let (mut seen, mut case) = (Seen::default(), case.clone());
    let policy = case.policy.clone();
    let mut reads = (1..=case.items).peekable();
    loop {
        let mut chunk = Chunk::new(policy.as_ref(), seen.counters.skips());
        let mut items = Vec::new();
        let mut has_ended = false;
        while items.len() < case.size {
            match reads.next() {
                None => {
                    has_ended = true;
                    break;
                }
                Some(item) if fails(&mut case.fails_read, item) => chunk.read_failed(&ErrorKind::READ),
                Some(item) => {
                    chunk.item_read();
                    items.push(item);
                }
            }
        }
        drive(&mut case, &items, &mut chunk, &mut seen);
        if has_ended || seen.failure.is_some() {
            return seen;
        }
    }
}

fn drive(case: &mut Case, items: &[usize], chunk: &mut Chunk<'_>, seen: &mut Seen) {
    let mut open: Vec<usize> = Vec::new();
    for _ in 0..10_000 {
        match chunk.next_action() {
            Action::Process(index) => {
                let item = items[index];
                seen.note(&format!("p{item}"));
                let outcome = if fails(&mut case.fails_process, item) {
                    Processed::Failed(ErrorKind::PROCESS)
                } else if case.filters.contains(&item) {
                    seen.filtered.insert(item);
                    Processed::Filtered
                } else {
                    Processed::Output
                };
                chunk.processed(index, outcome);
            }
            Action::Announce(skip) => announce(skip, items, seen),
            Action::Write(indices) => {
                let written: Vec<usize> = indices.iter().map(|&index| items[index]).collect();
                seen.note(&format!("w{written:?}"));
                let has_failed = written.iter().any(|&item| fails(&mut case.fails_write, item));
                if !has_failed {
                    open.extend(&written);
                }
                chunk.written(if has_failed { Err(ErrorKind::WRITE) } else { Ok(()) });
            }
            Action::Commit => {
                for skip in chunk.take_skips() {
                    announce(skip, items, seen);
                }
                seen.offset = if chunk.is_complete() { 0 } else { chunk.offset() };
                chunk.committed();
                seen.note("|C");
                seen.committed.append(&mut open);
                seen.counters += chunk.take_counters();
            }
            Action::RollBack => {
                seen.note("|R");
                open.clear();
                seen.counters += chunk.take_counters();
            }
            Action::Done => return,
            Action::Fail(failure) => {
                seen.failure = Some(failure);
                return;
            }
        }
    }
    panic!("the chunk goes on for ever: {}", seen.trace);
}

fn announce(skip: Skip, items: &[usize], seen: &mut Seen) {
    match skip.phase {
        Phase::Read => seen.note("SR"),
        Phase::Process => seen.note(&format!("SP{}", items[skip.index])),
        Phase::Write => seen.note(&format!("SW{}", items[skip.index])),
    }
    if skip.phase != Phase::Read {
        seen.announced.push(items[skip.index]);
    }
}

/// The case that the title of a vector describes.
fn described(title: &str) -> Case {
    let set = |text: &str| text.split(',').map(|n| (n.trim().parse().unwrap(), ALWAYS)).collect::<Fails>();
    let mut case = Case { items: 5, size: 2, ..Case::default() };
    let mut policy = FaultPolicy::default();
    let plain = title.starts_with("plain");
    if title.contains("4 items") {
        case.items = 4;
    }
    if title.contains("chunk 5") {
        case.size = 5;
    }
    let words = title.replace(" fails", "");
    for (phase, fails) in [
        ("read", &mut case.fails_read),
        ("process", &mut case.fails_process),
        ("write", &mut case.fails_write),
    ] {
        for form in [format!("{phase} skip "), format!("{phase} ")] {
            if let Some((_, rest)) = words.split_once(&form)
                && rest.starts_with(|c: char| c.is_ascii_digit())
            {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len());
                *fails = set(rest[..end].trim_end_matches(','));
            }
        }
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
    case.policy = (!plain).then_some(policy);
    case
}

/// The case that the title of a random vector describes.
fn described_by_pairs(title: &str) -> Case {
    let pairs: BTreeMap<&str, &str> =
        title.split(' ').map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
    let number = |name: &str| pairs.get(name).map(|text| text.parse::<u64>().unwrap());
    let listed = |name: &str| pairs.get(name).into_iter().flat_map(|text| text.split(','));
    let fails = |name: &str| {
        let item = |text: &str| match text.split_once('x') {
            Some((item, times)) => (item.parse().unwrap(), times.parse().unwrap()),
            None => (text.parse().unwrap(), ALWAYS),
        };
        listed(name).map(item).collect::<Fails>()
    };
    let kinds = |name: &str| {
        let kind = |word: &str| match word {
            "read" => ErrorKind::READ,
            "process" => ErrorKind::PROCESS,
            "write" => ErrorKind::WRITE,
            other => panic!("{other} in {title}"),
        };
        Kinds::of(listed(name).map(kind))
    };
    let policy = FaultPolicy {
        skip: kinds("skip"),
        skip_limit: number("limit").unwrap_or(0),
        retry: kinds("retry"),
        attempts_max: number("attempts").map_or(1, |n| u32::try_from(n).unwrap()),
        no_rollback: kinds("noRollback"),
        is_processor_transactional: !pairs.contains_key("nonTx"),
    };
    Case {
        items: usize::try_from(number("items").unwrap()).unwrap(),
        size: usize::try_from(number("chunk").unwrap()).unwrap(),
        fails_read: fails("read"),
        fails_process: fails("process"),
        fails_write: fails("write"),
        filters: listed("filter").map(|text| text.parse().unwrap()).collect(),
        policy: (!pairs.contains_key("plain")).then_some(policy),
    }
}

/// Compares each vector; returns how many there are.
fn check(vectors: &str, described: fn(&str) -> Case, reasons: &[(FailureReason, &[&str])]) -> usize {
    let mut lines = vectors.lines().peekable();
    let mut cases = 0;
    while let Some(head) = lines.next() {
        let at = head.find("COMPLETED").or_else(|| head.find("FAILED")).unwrap();
        let (title, expected) = (head[..at].trim(), &head[at..]);
        // The real engine also calls the writer with nothing to write.
        let trace = lines.next().unwrap().split(" w[]").collect::<String>();
        let end = lines.next_if(|line| line.contains("exit=FAILED"));

        let seen = run(&described(title));

        let c = seen.counters;
        let status = if seen.failure.is_some() { "FAILED" } else { "COMPLETED" };
        let got = format!(
            "{status} read={} write={} filter={} rs={} ps={} ws={} commit={} rollback={}",
            c.read, c.write, c.filter, c.read_skip, c.process_skip, c.write_skip, c.commit, c.rollback
        );
        assert_eq!((got.as_str(), seen.trace.as_str()), (expected.trim(), trace.trim()), "{title}");
        if let Some(end) = end {
            let reason = seen.failure.unwrap().reason;
            let classes = reasons.iter().filter(|(one, _)| *one == reason).flat_map(|(_, classes)| *classes);
            assert!(classes.into_iter().any(|class| end.contains(class)), "{title}: {reason:?} {end}");
            let offset = end.split_once("OFFSET=").map_or("0", |(_, rest)| &rest[..1]);
            assert_eq!(seen.offset.to_string(), offset, "{title}");
        }
        cases += 1;
    }
    cases
}

#[test]
fn the_vectors_of_the_real_engine_come_out() {
    let reasons: [(FailureReason, &[&str]); 2] = [
        (FailureReason::RetryExhausted, &["ExhaustedRetryException"]),
        (FailureReason::SkipLimitExceeded, &["SkipLimitExceededException"]),
    ];
    assert_eq!(check(VECTORS, described, &reasons), 16);
}

#[test]
fn random_vectors_of_the_real_engine_come_out() {
    let reasons: [(FailureReason, &[&str]); 3] = [
        (FailureReason::RetryExhausted, &["ExhaustedRetryException", "RetryException"]),
        (FailureReason::SkipLimitExceeded, &["SkipLimitExceededException"]),
        (
            FailureReason::NotTolerated,
            &["NonSkippableReadException", "ReadError", "ProcessError", "WriteError"],
        ),
    ];
    assert_eq!(check(RANDOM, described_by_pairs, &reasons), 300);
}

fn cases() -> impl Strategy<Value = Case> {
    let set = || prop::collection::btree_set(1..=12_usize, 0..5);
    let some = || prop::collection::btree_map(1..=12_usize, prop_oneof![Just(ALWAYS), 1..3_u32], 0..5);
    let policy = (0..3_u32, 0..12_u64, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(attempts_max, skip_limit, skips, no_rollback, is_processor_transactional)| FaultPolicy {
            skip: if skips { Kinds::all() } else { Kinds::default() },
            skip_limit,
            retry: Kinds::all(),
            attempts_max,
            no_rollback: if skips && no_rollback { Kinds::all() } else { Kinds::default() },
            is_processor_transactional,
        },
    );
    (0..=12_usize, 1..=6_usize, some(), some(), some(), set(), prop::option::of(policy)).prop_map(
        |(items, size, fails_read, fails_process, fails_write, filters, policy)| Case {
            items,
            size,
            fails_read,
            fails_process,
            fails_write,
            filters,
            policy,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_item_is_lost_and_none_is_settled_twice(case in cases()) {
        let seen = run(&case);

        let once: BTreeSet<usize> = seen.committed.iter().copied().collect();
        prop_assert_eq!(once.len(), seen.committed.len(), "written twice: {}", seen.trace);
        let skipped: BTreeSet<usize> = seen.announced.iter().copied().collect();
        prop_assert_eq!(skipped.len(), seen.announced.len(), "announced twice: {}", &seen.trace);
        prop_assert!(once.is_disjoint(&skipped));
        prop_assert!(once.iter().all(|item| case.fails_write.get(item) != Some(&ALWAYS)));
        let c = seen.counters;
        prop_assert_eq!(c.commit, seen.trace.matches("|C").count() as u64);
        prop_assert_eq!(c.rollback, seen.trace.matches("|R").count() as u64);
        if seen.failure.is_none() {
            let filtered = seen.filtered.len() as u64;
            prop_assert_eq!(c.read, c.write + filtered + c.process_skip + c.write_skip, "{}", &seen.trace);
            // An attempt that is repeated counts them again.
            prop_assert!(c.filter >= filtered && (c.rollback > 0 || c.filter == filtered), "{}", &seen.trace);
            prop_assert_eq!(c.write, once.len() as u64);
            prop_assert_eq!(c.process_skip + c.write_skip, skipped.len() as u64);
            prop_assert_eq!(c.read + c.read_skip, case.items as u64);
        }
        if let Some(policy) = &case.policy {
            prop_assert!(c.skips() <= policy.skip_limit);
        } else {
            prop_assert_eq!(c.skips(), 0);
        }
    }
}
