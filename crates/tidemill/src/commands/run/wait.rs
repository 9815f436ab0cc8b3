//! Waits for units in the queue, and reports the position and the reason.

use super::request::Request;
use crate::commands::prelude::*;
use crate::commands::shutdown::Signals;
use rustix::process::Signal;
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use tidemill_api::pool::PoolRefusal;
use tidemill_domain::duration;
use tidemill_domain::pool::command::{Answer, Release, Waits};
use tidemill_domain::pool::{End, Reason, ReleaseBy};
use tidemill_domain::time::Clock;
use tidemill_domain::words::plural;
use tidemill_engine::SystemClock;
use tidemill_engine::pool::{Hold, Pools};

/// Interval of progress messages, at a terminal and in a log.
const REPORT_EVERY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

pub(super) enum Waited {
    Held(Hold),
    Interrupted(Signal),
}

pub(super) async fn for_units(
    pools: &Pools,
    request: &Request,
    wait: Duration,
    signals: &mut Signals,
    context: &Context,
) -> Result<Waited> {
    let clock = SystemClock::new();
    let deadline = clock.monotonic().plus(wait);
    let report_every = if stderr().is_terminal() { REPORT_EVERY.0 } else { REPORT_EVERY.1 };
    let mut has_waited = false;
    loop {
        let left = deadline.since(clock.monotonic());
        // The first wait is short, so that the first message comes soon.
        let turn = if has_waited { report_every } else { Duration::from_secs(1) }.min(left);
        let asked = tokio::select! {
            asked = pools.hold(request.ask.clone(), turn) => asked?,
            signal = signals.next() => {
                // The units may have been granted at this very moment.
                leave(pools, request, End::Released { failed: true }).await?;
                return Ok(Waited::Interrupted(signal));
            }
        };
        match asked {
            Ok(hold) => {
                report(&hold, has_waited, context);
                return Ok(Waited::Held(hold));
            }
            Err(Answer::Waits(waits)) if left > turn => {
                context.note(&progress(&waits));
                has_waited = true;
            }
            Err(Answer::Waits(waits)) => {
                leave(pools, request, End::GaveUp).await?;
                return Err(not_in_time(&waits, request, wait));
            }
            Err(Answer::Refused { pool, reason: Reason::UnknownPool }) => {
                return Err(PoolRefusal::not_found(pool.as_str()).into());
            }
            Err(Answer::Refused { pool, reason }) => {
                let what = format!("the request is larger than pool \"{pool}\"");
                let fix =
                    format!("request less, accept less with `--min`, or see `tidemill pool show {pool}`");
                return Err(Failure::new(Code::RequestExceedsPool, what, fix).because(reason.sentence()));
            }
            Err(_) => {
                let what = "an operator took the request out of the queue";
                let fix = "see `tidemill pool events`, then run it again";
                return Err(Failure::new(Code::PoolLeaseGone, what, fix));
            }
        }
    }
}

/// Leaves the queues, or releases units that came too late.
async fn leave(pools: &Pools, request: &Request, end: End) -> Result<()> {
    for part in &request.ask.parts {
        let release = Release {
            pool: part.pool.clone(),
            by: ReleaseBy::Holder(request.ask.holder.clone()),
            epoch: None,
            end: end.clone(),
            call: None,
        };
        pools.release(release).await?;
    }
    Ok(())
}

/// Reports a grant after a wait or with less than requested.
fn report(hold: &Hold, has_waited: bool, context: &Context) {
    for part in hold.parts() {
        let ticket = &part.ticket;
        if let Some(granted) = ticket.granted.filter(|_| has_waited || ticket.is_downgraded()) {
            context.note(&format!(
                "granted {} of {} units of {}, lease {}",
                granted, ticket.asked, part.pool, ticket.id
            ));
        }
    }
}

fn progress(waits: &Waits) -> String {
    let likely = waits.estimate.map_or_else(String::new, |estimate| {
        format!("; expected to start in {}", duration::show(Duration::from_secs(estimate.p50.as_secs())))
    });
    let Waits { pool, position, level, reason, .. } = waits;
    let (usage, limit) = (level.usage, level.limit);
    format!(
        "waiting for {pool}: position {position}, {usage} of {limit} units in use, {}{likely}",
        reason.sentence()
    )
}

fn not_in_time(waits: &Waits, request: &Request, wait: Duration) -> Failure {
    let pool = &waits.pool;
    let is = match waits.reason {
        Reason::PoolPaused => "is paused",
        Reason::BreakerOpen => "waits until its database accepts connections",
        _ => "is full",
    };
    let (what, more) = match wait.is_zero() {
        true => (format!("pool \"{pool}\" {is} and --wait is 0"), "add `--wait 30m`"),
        false => {
            let text = duration::show(wait);
            (format!("pool \"{pool}\" {is}; no units after {text}"), "wait longer with `--wait`")
        }
    };
    let part = request.ask.parts.iter().find(|part| part.pool == *pool);
    let least = part.and_then(|part| part.least).map_or_else(String::new, |least| format!(" (min {least})"));
    let ahead = plural(waits.position.saturating_sub(1), "request is", "requests are");
    let why = format!(
        "{} of {} units in use, you requested {}{least}; {ahead} ahead\n{}",
        waits.level.usage,
        waits.level.limit,
        waits.requested,
        waits.reason.sentence()
    );
    let fix = format!("{more}, accept less with `--min`, or see holders: `tidemill pool holders {pool}`");
    Failure::new(Code::PoolFull, what, fix).because(why)
}
