//! Tests with a report that meets all targets, and with the same report with one bad figure.

use super::*;

const ROWS: u64 = 1000;

fn measured(case: Case, rate: f64, resident_mb: f64) -> Measured {
    let rate = if matches!(case, Case::Spring { .. } | Case::SpringCsv { .. }) { rate / 20.0 } else { rate };
    let server_seconds = if matches!(case, Case::Spring { .. } | Case::SpringCsv { .. }) { 3.1 } else { 1.0 };
    Measured { resident_mb: Some(resident_mb), server_seconds, ..Measured::line(ROWS, ROWS as f64 / rate) }
}

/// All cases are as fast as bare COPY, with 20 MB each, except for the changes of `spoil`.
fn report(spoil: impl Fn(Case, &mut Measured)) -> Report {
    let mut report = Report::new(ROWS, 1);
    for case in Case::ALL {
        let mut one = measured(case, 100.0, 20.0);
        spoil(case, &mut one);
        report.add(case, one);
    }
    report.statements = 1.0;
    report.long = Some(Measured { rows: ROWS * 10, ..measured(LONG, 100.0, 21.0) });
    report.program = vec![(Case::Csv { chunk: 1000, threads: 1 }, 44.9)];
    report
}

#[test]
fn what_is_as_wanted_misses_nothing() {
    let report = report(|_, _| {});

    assert_eq!(report.missed(), [""; 0]);
    assert!(!report.table().contains("MISSED"), "{}", report.table());
    assert!(report.table().contains("1000 rows 20 MB, 10000 rows 21 MB"), "{}", report.table());
    assert!(report.table().contains(" flat\n"), "{}", report.table());
    assert!(report.table().contains("1.0 s, Spring Batch 3.1 s"), "{}", report.table());
    assert!(report.table().contains("44.9 MB (at most 45 MB wanted): holds"), "{}", report.table());
    assert!(!report.table().contains("does not hold"), "{}", report.table());
}

/// Checks that exactly one target is missed, and that the table and the JSON show it.
#[track_caller]
fn check(report: &Report, missed: &str) {
    let table = report.table();
    assert_eq!(report.missed(), [missed], "{table}");
    assert_eq!(table.matches("MISSED").count(), 1, "{table}");
    assert_eq!(report.json()["missed"], json!([missed]));
}

#[test]
fn a_job_that_is_too_slow_is_missed() {
    let slow = Case::Copy { chunk: 100 };
    let report = report(|case, one| {
        if case == slow {
            one.seconds *= 4.1;
        }
    });

    check(&report, "speed of job: cursor -> COPY, chunk 100");
}

#[test]
fn a_job_that_needs_too_much_memory_is_missed_though_nothing_is_wanted_of_its_speed() {
    let report = report(|case, one| {
        if matches!(case, Case::CsvIntoSqlite { .. }) {
            one.resident_mb = Some(65.0);
        }
    });

    check(&report, "memory of job: CSV -> SQLite, chunk 1000");
}

#[test]
fn a_job_that_is_too_slow_beside_spring_batch_is_missed() {
    let report = report(|case, one| {
        if case == (Case::Spring { chunk: 10 }) {
            one.seconds /= 8.0;
        }
    });

    check(&report, "speed against Spring Batch of job: cursor -> COPY, chunk 10");
}

/// Checks that exactly one sentence says that its target does not hold.
#[track_caller]
fn check_sentence(report: &Report, missed: &str) {
    let table = report.table();
    assert_eq!(report.missed(), [missed], "{table}");
    assert_eq!(table.matches("does not hold").count(), 1, "{table}");
}

#[test]
fn a_job_for_which_the_server_works_too_long_does_not_hold() {
    let report = report(|case, one| {
        if case == (Case::Copy { chunk: 10 }) {
            one.server_seconds = 1.1;
        }
    });

    check_sentence(&report, "server CPU against Spring Batch of job: cursor -> COPY, chunk 10");
}

#[test]
fn a_program_that_needs_too_much_memory_does_not_hold() {
    let mut report = report(|_, _| {});
    report.program = vec![(Case::Csv { chunk: 1000, threads: 1 }, 45.1)];

    check_sentence(&report, "memory of the program, job: CSV -> COPY, chunk 1000");
}

#[test]
fn without_spring_batch_its_targets_are_neither_met_nor_missed() {
    let mut report = report(|_, _| {});
    report.measured.retain(|(case, _)| !matches!(case, Case::Spring { .. } | Case::SpringCsv { .. }));

    assert_eq!(report.missed(), [""; 0]);
    assert!(report.table().contains("not measured"), "{}", report.table());
    assert!(!report.table().contains("Spring Batch: "), "{}", report.table());
}

#[test]
fn a_second_statement_per_chunk_is_missed() {
    let mut report = report(|_, _| {});
    report.statements = 2.0;

    check(&report, "metadata statements per chunk");
}

#[test]
fn memory_that_grows_with_the_rows_is_missed() {
    let mut report = report(|_, _| {});
    report.long = report.long.map(|long| Measured { resident_mb: Some(26.0), ..long });

    check(&report, "flat memory");
}
