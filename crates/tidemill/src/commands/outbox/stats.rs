//! `tidemill outbox stats`: what was not published yet, what has failed, and who relays. What is not known is said to
//! be unknown.

use crate::config::Output;
use crate::context::Context;
use crate::output::{Listing, print_fields};
use crate::report::Failure;
use clap::Args;
use serde_json::{Value, json};
use tidemill_domain::code::Exit;
use tidemill_domain::outbox::Count;
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::{AttachedStanding, Backlog, OutboxStats, SlotLag};

/// How the outbox stands
#[derive(Args, Debug)]
pub(crate) struct Stats {
    /// Slot by slot
    #[arg(long)]
    slots: bool,
    /// How far is counted
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
}

pub(super) async fn run(arguments: &Stats, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let stats = tx.outbox().stats(arguments.count).await?;
    let attached = tx.outbox().attached_standings(arguments.count).await?;
    match arguments.slots {
        true => slots(&stats, context.output()),
        false => whole(&stats, &attached, context.output()),
    }
}

fn whole(stats: &OutboxStats, attached: &[AttachedStanding], output: Output) -> Result<Exit, Failure> {
    let is_for_people = output == Output::Table;
    let count = |known: Option<Count>| counted(known, is_for_people);
    let known =
        |value: Option<f64>| rounded(value).map_or_else(|| unknown(is_for_people), |value| json!(value));
    let (unpublished, unread) = (stats.unpublished(), stats.unread());
    let age = |backlog: Option<Backlog>| age(backlog, stats.at, is_for_people);
    let (failed_events, tally) = (&stats.failed_events, stats.tally());
    let partitions: Vec<Value> = stats
        .partitions
        .iter()
        .map(|partition| match is_for_people {
            true => json!(format!(
                "{} ({}, {} bytes)",
                partition.name,
                partition.rows.map_or_else(|| "rows unknown".to_owned(), |rows| format!("about {rows} rows")),
                partition.bytes
            )),
            false => json!({
                "name": partition.name,
                "from": partition.range.map(|range| range.from),
                "to": partition.range.map(|range| range.to),
                "rows": partition.rows,
                "bytes": partition.bytes,
            }),
        })
        .collect();
    let fields = [
        ("unpublished", count(unpublished.map(|backlog| backlog.rows))),
        ("unpublished_oldest_seconds", age(unpublished)),
        ("unread", count(unread.map(|backlog| backlog.rows))),
        ("oldest_seconds", age(unread)),
        ("waiting", count(Some(failed_events.waiting.rows))),
        ("waiting_oldest_seconds", age(Some(failed_events.waiting))),
        ("held", count(Some(failed_events.held.rows))),
        ("parked", count(Some(failed_events.parked.rows))),
        ("parked_oldest_seconds", age(Some(failed_events.parked))),
        ("skipped", count(Some(failed_events.skipped))),
        ("relays", json!(stats.relays.len())),
        ("published_per_second", known(stats.published_per_second())),
        ("empty_poll_ratio", known(tally.empty_poll_ratio())),
        ("queries_per_10000_events", known(tally.queries_per_10000_events())),
        ("unowned_slots", json!(stats.unowned)),
        ("missing_shares", json!(stats.missing_shares)),
        ("default_rows", stats.default_rows.map_or(Value::Null, |rows| count(Some(rows)))),
        ("wal_bytes_per_event", known(stats.wal_bytes_per_event)),
        ("partitions", json!(partitions)),
        (
            "attached",
            json!(attached.iter().map(|one| table(one, stats.at, is_for_people)).collect::<Vec<_>>()),
        ),
    ];
    print_fields("tidemill.outbox_stats/v1", &fields, output)
}

fn table(standing: &AttachedStanding, now: Timestamp, is_for_people: bool) -> Value {
    let name = standing.name.to_string();
    let Some(counts) = standing.counts else {
        return if is_for_people { json!(format!("{name} (unknown)")) } else { json!({ "table": name }) };
    };
    let age = counts.oldest.map(|oldest| now.since(oldest).as_secs_f64());
    if is_for_people {
        let oldest = age.map_or_else(String::new, |age| format!(", the oldest for {age:.1} s"));
        let (pending, sending, failed) = (counts.pending, counts.sending, counts.failed);
        return json!(format!("{name} ({pending} pending{oldest}, {sending} sending, {failed} failed)"));
    }
    json!({
        "table": name,
        "pending": counted(Some(counts.pending), false),
        "sending": counted(Some(counts.sending), false),
        "failed": counted(Some(counts.failed), false),
        "oldest_seconds": age,
    })
}

fn slots(stats: &OutboxStats, output: Output) -> Result<Exit, Failure> {
    let is_for_people = output == Output::Table;
    let columns = &[
        "slot",
        "owner",
        "epoch",
        "unpublished",
        "unpublished_oldest_seconds",
        "unread",
        "oldest_at",
        "oldest_seconds",
    ];
    let empty = "Nobody can say: the database was restored into another server, and no relay has come since.";
    let mut listing = Listing::new("tidemill.outbox_slot/v1", columns, empty);
    for lag @ SlotLag { slot, owner, epoch, rows, oldest } in stats.lag.iter().flatten() {
        let unpublished = lag.unread().plus(stats.failed_events.of_slot(*slot));
        listing.push(vec![
            json!(slot.get()),
            json!(owner.map(|owner| owner.to_string())),
            json!(epoch.get()),
            counted(Some(unpublished.rows), is_for_people),
            age(Some(unpublished), stats.at, is_for_people),
            counted(Some(*rows), is_for_people),
            json!(oldest.map(|oldest| oldest.to_string())),
            json!(oldest.map(|oldest| stats.at.since(oldest).as_secs_f64())),
        ]);
    }
    listing.print(output)
}

/// How old the oldest is; nothing when there is none.
fn age(backlog: Option<Backlog>, now: Timestamp, is_for_people: bool) -> Value {
    match backlog {
        Some(Backlog { oldest: Some(oldest), .. }) => json!(now.since(oldest).as_secs_f64()),
        Some(Backlog { rows: Count::Exactly(0), .. }) => Value::Null,
        _ => unknown(is_for_people),
    }
}

/// For people in words; for programs the number with whether it is exact, and nothing where nothing is known.
fn counted(count: Option<Count>, is_for_people: bool) -> Value {
    match count {
        None | Some(Count::AtLeast(0)) => unknown(is_for_people),
        Some(count) if is_for_people => json!(count.to_string()),
        Some(count) => json!({ "at_least": count.least(), "is_exact": count.is_exact() }),
    }
}

/// As exact as anybody can use.
pub(super) fn rounded(value: Option<f64>) -> Option<f64> {
    value.map(|value| (value * 1_000.0).round() / 1_000.0)
}

fn unknown(is_for_people: bool) -> Value {
    if is_for_people { json!("unknown") } else { Value::Null }
}
