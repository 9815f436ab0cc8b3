//! Vectors of the real Spring Batch, and properties: whatever fails, no item is lost or settled twice.

use super::*;
use crate::job::fault::Kinds;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const VECTORS: &str = include_str!("../../../../../vectors/spring_batch_5.2.6/chunk.txt");

/// What goes wrong, and what the step tolerates.
#[derive(Clone, Debug, Default)]
struct Case {
    items: usize,
    size: usize,
    fails_read: BTreeSet<usize>,
    fails_process: BTreeSet<usize>,
    fails_write: BTreeSet<usize>,
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
    offset: usize,
}

impl Seen {
    fn note(&mut self, text: &str) {
        let _infallible = write!(self.trace, "{}{text}", if self.trace.is_empty() { "" } else { " " });
    }
}

/// Drives a whole step. The items are 1, 2, 3, …
fn run(case: &Case) -> Seen {
    let mut seen = Seen::default();
    let mut reads = (1..=case.items).peekable();
    loop {
        let mut chunk = Chunk::new(case.policy.as_ref(), seen.counters.skips());
        let mut items = Vec::new();
        let mut has_ended = false;
        while items.len() < case.size {
            match reads.next() {
                None => {
                    has_ended = true;
                    break;
                }
                Some(item) if case.fails_read.contains(&item) => chunk.read_failed(&ErrorKind::READ),
                Some(item) => {
                    chunk.item_read();
                    items.push(item);
                }
            }
        }
        drive(case, &items, &mut chunk, &mut seen);
        if has_ended || seen.failure.is_some() {
            return seen;
        }
    }
}

fn drive(case: &Case, items: &[usize], chunk: &mut Chunk<'_>, seen: &mut Seen) {
    let mut open: Vec<usize> = Vec::new();
    for _ in 0..10_000 {
        match chunk.next_action() {
            Action::Process(index) => {
                let item = items[index];
                seen.note(&format!("p{item}"));
                let outcome = if case.fails_process.contains(&item) {
                    Processed::Failed(ErrorKind::PROCESS)
                } else if case.filters.contains(&item) {
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
                let fails = written.iter().any(|item| case.fails_write.contains(item));
                if !fails {
                    open.extend(&written);
                }
                chunk.written(if fails { Err(ErrorKind::WRITE) } else { Ok(()) });
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
    let set = |text: &str| text.split(',').map(|n| n.trim().parse().unwrap()).collect::<BTreeSet<usize>>();
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

#[test]
fn the_vectors_of_the_real_engine_come_out() {
    let mut lines = VECTORS.lines().peekable();
    let mut cases = 0;
    while let Some(head) = lines.next() {
        let at = head.find("COMPLETED").or_else(|| head.find("FAILED")).unwrap();
        let (title, expected) = (head[..at].trim(), &head[at..]);
        let trace = lines.next().unwrap().trim();
        let end = lines.next_if(|line| line.contains("exit=FAILED"));

        let seen = run(&described(title));

        let c = seen.counters;
        let status = if seen.failure.is_some() { "FAILED" } else { "COMPLETED" };
        let got = format!(
            "{status} read={} write={} filter={} rs={} ps={} ws={} commit={} rollback={}",
            c.read, c.write, c.filter, c.read_skip, c.process_skip, c.write_skip, c.commit, c.rollback
        );
        assert_eq!((got.as_str(), seen.trace.as_str()), (expected.trim(), trace), "{title}");
        if let Some(end) = end {
            let reason = match seen.failure.unwrap().reason {
                FailureReason::RetryExhausted => "ExhaustedRetryException",
                FailureReason::SkipLimitExceeded => "SkipLimitExceededException",
                FailureReason::NotTolerated => "",
            };
            assert!(end.contains(reason) && !reason.is_empty(), "{title}: {end}");
            let offset = end.split_once("OFFSET=").map_or("0", |(_, rest)| &rest[..1]);
            assert_eq!(seen.offset.to_string(), offset, "{title}");
        }
        cases += 1;
    }
    assert_eq!(cases, 16);
}

fn cases() -> impl Strategy<Value = Case> {
    let some = || prop::collection::btree_set(1..=12_usize, 0..5);
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
    (0..=12_usize, 1..=6_usize, some(), some(), some(), some(), prop::option::of(policy)).prop_map(
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
        prop_assert!(once.is_disjoint(&case.fails_write));
        let c = seen.counters;
        prop_assert_eq!(c.commit, seen.trace.matches("|C").count() as u64);
        prop_assert_eq!(c.rollback, seen.trace.matches("|R").count() as u64);
        if seen.failure.is_none() {
            prop_assert_eq!(c.read, c.write + c.filter + c.process_skip + c.write_skip, "{}", &seen.trace);
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
