//! `tidemill status`: the whole installation on one screen.

use crate::commands::prelude::*;
use crate::config::Output;
use crate::report::printable;
use tidemill_api::outbox::OutboxCount;
use tidemill_api::status::Status;
use tidemill_server::api::status;

#[crate::boxed(?Send)]
pub(super) async fn run(context: &Context) -> Result<Exit> {
    let status = status::read(&context.store().await?).await?;
    match context.output() {
        Output::Table => write_stdout(printable(&text(&status))),
        _ => context.print_one("tidemill.status/v1", &status),
    }
}

fn text(status: &Status) -> String {
    let Status { database, executions, outbox, .. } = status;
    let ago = |at: tidemill_domain::time::Timestamp| at.relative_to(status.at);
    let schema = match database.pending_migrations {
        0 => "schema up to date".to_owned(),
        count => format!("{count} migrations are missing: run `tidemill db migrate`"),
    };
    let oldest = outbox.oldest_at.map(|at| format!(", the oldest {}", ago(at))).unwrap_or_default();
    let pools = status.pools.iter().map(|pool| {
        let paused = if pool.is_paused { ", paused" } else { "" };
        format!("{}: {} of {} in use, {} waiting{paused}", pool.name, pool.in_use, pool.limit, pool.waiting)
    });
    let alerts = status.alerts.iter().map(|alert| {
        let since = alert.since.map(ago).unwrap_or_default();
        format!("{} {} ({}), firing since {since}", alert.rule, alert.subject, alert.severity)
    });
    let schedules = status
        .schedules
        .iter()
        .map(|tick| format!("{}: {} {}", tick.name, tick.job, tick.next_at.map(ago).unwrap_or_default()));
    let sections = [
        ("database", vec![format!("{}, {}, {schema}", database.kind, database.place)]),
        ("processes", vec![counts(&status.processes)]),
        ("pools", pools.collect()),
        (
            "executions",
            vec![format!("{} running, {} failed in the last 24 h", executions.running, executions.failed)],
        ),
        (
            "outbox",
            vec![format!(
                "{} unpublished{oldest}; {} failed; {} relays",
                count(outbox.unpublished.as_ref()),
                count(outbox.failed.as_ref()),
                outbox.relays
            )],
        ),
        ("renders", vec![counts(&status.renders)]),
        ("alerts", alerts.collect()),
        ("schedules", schedules.collect()),
    ];
    let section = |(name, lines): (&str, Vec<String>)| {
        let lines = lines.join("\n            ");
        format!("{name:<12}{}\n", if lines.is_empty() { "none" } else { &lines })
    };
    sections.into_iter().map(section).collect()
}

fn counts<T: ToString>(counts: &std::collections::BTreeMap<&'static str, T>) -> String {
    let parts = counts.iter().map(|(word, count)| format!("{} {word}", count.to_string()));
    parts.collect::<Vec<_>>().join(", ")
}

fn count(count: Option<&OutboxCount>) -> String {
    count.map_or_else(
        || "unknown".to_owned(),
        |count| format!("{}{}", count.at_least, if count.is_exact { "" } else { "+" }),
    )
}
