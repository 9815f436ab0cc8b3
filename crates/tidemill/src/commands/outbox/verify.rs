//! `outbox verify`: compares the published records with the event table.

use crate::commands::prelude::*;
use crate::commands::relay::sink::{kafka, kafka_options};
use crate::commands::shutdown::signals;
use crate::config::Output;
use serde_json::Value;
use std::time::Duration;
use tidemill_domain::duration;
use tidemill_domain::outbox::Verdict;
use tidemill_domain::words::plural;
use tidemill_engine::outbox::sink::SinkAddress;
use tidemill_engine::outbox::{Verified, Verifier, VerifyError};
use tidemill_kafka::{PATIENCE, TopicsBack};
use tidemill_store::Store;

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// Where the records are: kafka, kafka:HOST:PORT or file:PATH. Repeat it for rotated files, the oldest first
    #[arg(long = "sink", value_name = "SINK", required = true)]
    sinks: Vec<String>,
    /// Read this Kafka topic too, besides the topics of events in the table; repeat it for more
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Repeat until stopped, and print whenever the result changes
    #[arg(long)]
    follow: bool,
    /// Interval between two checks
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse, requires = "follow")]
    every: Duration,
}

pub(super) async fn run(arguments: Verify, context: &Context) -> Result<Exit> {
    let mut verifier = verifier(&arguments, context.store().await?, context)?;
    if arguments.follow {
        return follow(&mut verifier, arguments.every, context).await;
    }
    let verified = verifier.look().await?;
    no_file_is_missing(&verifier)?;
    print(&verified, &verifier, context)?;
    judge(&verified.verdict)
}

fn verifier(arguments: &Verify, store: Store, context: &Context) -> Result<Verifier> {
    let Verify { sinks, topics, .. } = arguments;
    match (sinks.iter().find_map(|sink| kafka(sink)), sinks.len()) {
        (Some(servers), 1) => {
            let options = kafka_options(context.settings(), servers)?;
            Ok(Verifier::of(store, TopicsBack::new(options, topics.clone(), PATIENCE)))
        }
        (Some(_), _) => {
            let fix = "verify Kafka alone, with one `--sink kafka`";
            Err(Failure::new(Code::BadSink, "Kafka cannot be verified together with other sinks", fix))
        }
        (None, _) if !topics.is_empty() => {
            let fix = "remove --topic, or verify `--sink kafka`";
            Err(Failure::new(Code::BadSink, "only Kafka has topics", fix))
        }
        (None, _) => {
            let files = sinks.iter().map(|sink| sink.parse()).collect::<Result<Vec<SinkAddress>, _>>()?;
            Ok(Verifier::new(store, &files)?)
        }
    }
}

async fn follow(verifier: &mut Verifier, every: Duration, context: &Context) -> Result<Exit> {
    let mut signals = signals()?;
    let mut last = None;
    loop {
        let verified = verifier.look().await?;
        // A relay creates its file with the first record.
        if !verified.verdict.is_clean() {
            no_file_is_missing(verifier)?;
        }
        if last.as_ref() != Some(&verified) {
            print(&verified, verifier, context)?;
            judge(&verified.verdict)?;
            last = Some(verified);
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _signal = signals.next() => return Ok(Exit::Ok),
        }
    }
}

fn no_file_is_missing(verifier: &Verifier) -> Result<(), VerifyError> {
    verifier.missing().map_or(Ok(()), |path| Err(VerifyError::NoFile(path.display().to_string())))
}

fn judge(verdict: &Verdict) -> Result<Exit> {
    if verdict.is_clean() {
        return Ok(Exit::Ok);
    }
    let lost = plural(verdict.lost.count, "event is", "events are");
    let what = format!("{lost} lost, and {} out of order", plural(verdict.reordered.count, "is", "are"));
    let fix =
        "pass all files of the sink, the oldest first, or all topics; then see `tidemill explain TM1403`";
    Err(Failure::new(Code::VerifyFailed, what, fix))
}

fn print(verified: &Verified, verifier: &Verifier, context: &Context) -> Result<Exit> {
    let summary = format!("{}\n", verified.verdict);
    match context.output() {
        Output::Json | Output::Jsonl => {
            context.print_one("tidemill.outbox_verify/v1", &object(verified, verifier))
        }
        Output::Csv => {
            context.note(summary.trim_end());
            findings(verified, verifier).print(Output::Csv)
        }
        Output::Table => {
            write_stdout(summary)?;
            let findings = findings(verified, verifier);
            if findings.is_empty() { Ok(Exit::Ok) } else { findings.print(Output::Table) }
        }
    }
}

/// The first findings of each kind, for people.
fn findings(verified: &Verified, verifier: &Verifier) -> Listing {
    let columns = &["what", "event", "aggregate", "place", "after"];
    let mut listing = Listing::new("tidemill.outbox_finding/v1", columns, "No findings.");
    let verdict = &verified.verdict;
    let mut push = |what: &str, [event, aggregate, place, after]: [Value; 4]| {
        listing.push(vec![json!(what), event, aggregate, place, after]);
    };
    for id in &verdict.lost.first {
        let aggregate = verified.lost.get(id).map(ToString::to_string);
        push("lost", [json!(id), json!(aggregate), Value::Null, Value::Null]);
    }
    for found in &verdict.reordered.first {
        let after = format!("{} at {}", found.after, verifier.place(found.after_place));
        let aggregate = json!(found.aggregate.to_string());
        push("reordered", [json!(found.id), aggregate, json!(verifier.place(found.place)), json!(after)]);
    }
    for found in &verdict.repeated.first {
        push("duplicated", [json!(found.id), Value::Null, json!(verifier.place(found.place)), Value::Null]);
    }
    for id in &verdict.unknown.first {
        push("unknown", [json!(id), Value::Null, Value::Null, Value::Null]);
    }
    for place in &verdict.torn.first {
        push("torn", [Value::Null, Value::Null, json!(verifier.place(*place)), Value::Null]);
    }
    for (slot, seq) in &verdict.gaps.first {
        push("gap", [Value::Null, Value::Null, json!(format!("slot {slot}, {seq}")), Value::Null]);
    }
    listing
}

fn object(verified: &Verified, verifier: &Verifier) -> Value {
    let verdict = &verified.verdict;
    let place = |place| verifier.place(place);
    let lost = verdict.lost.first.iter().map(|id| {
        let aggregate = verified.lost.get(id);
        json!({
            "id": id,
            "aggregate_type": aggregate.map(|aggregate| &aggregate.kind),
            "aggregate_id": aggregate.map(|aggregate| &aggregate.id),
        })
    });
    let reordered = verdict.reordered.first.iter().map(|found| {
        json!({
            "id": found.id,
            "aggregate_type": found.aggregate.kind,
            "aggregate_id": found.aggregate.id,
            "place": place(found.place),
            "after": { "id": found.after, "place": place(found.after_place) },
        })
    });
    let repeated =
        verdict.repeated.first.iter().map(|found| json!({ "id": found.id, "place": place(found.place) }));
    let gaps = verdict.gaps.first.iter().map(|(slot, seq)| json!({ "slot": slot, "seq": seq }));
    let excused = verdict.excused;
    json!({
        "is_clean": verdict.is_clean(),
        "records": verdict.records,
        "events": verdict.events,
        "lost": { "count": verdict.lost.count, "first": lost.collect::<Value>() },
        "reordered": { "count": verdict.reordered.count, "first": reordered.collect::<Value>() },
        "duplicated": {
            "count": verdict.repeated.count,
            "events": verdict.repeated_events,
            "first": repeated.collect::<Value>(),
        },
        "unknown": { "count": verdict.unknown.count, "first": verdict.unknown.first },
        "forgotten": verdict.forgotten,
        "torn": {
            "count": verdict.torn.count,
            "first": verdict.torn.first.iter().map(|found| json!(place(*found))).collect::<Value>(),
        },
        "foreign": verdict.foreign,
        "gaps": { "count": verdict.gaps.count, "first": gaps.collect::<Value>() },
        "pending": verdict.pending,
        "excused": {
            "waiting": excused.waiting,
            "held": excused.held,
            "parked": excused.parked,
            "skipped": excused.skipped,
        },
    })
}
