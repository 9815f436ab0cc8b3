//! What was decided about a request, in the words of the document.

use super::EmrAgentOptions;
use super::answer::{AcquireAnswer, Granted, ReleaseAnswer, Source, Usage, Waiting};
use std::num::NonZeroU32;
use tidemill_domain::pool::Reason;
use tidemill_domain::pool::command::{Admitted, Level, Released, Waits};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolRecord;

/// Units are there. `hint` is the text to run with.
pub(super) fn admitted(
    part: &Admitted,
    is_duplicate: bool,
    hint: Option<String>,
    options: EmrAgentOptions,
) -> AcquireAnswer {
    let (ticket, units) = (&part.ticket, part.ticket.units());
    let parallel = ticket.granted.unwrap_or(ticket.asked);
    let mut after = usage(part.level);
    if options.compat_available {
        after.available = after.available_to_max;
    }
    let is_downgraded = ticket.is_downgraded();
    let told = |reason: Reason| (reason.as_str().to_owned(), reason.sentence().to_owned());
    let (detail, message) = is_downgraded.then(|| told(Reason::PartialCapacity)).unzip();
    let granted = Granted {
        before: part.level.usage.saturating_sub(units),
        after,
        lease_id: ticket.id.to_string(),
        epoch: ticket.epoch.get(),
        parallel,
        units,
        hint,
        is_duplicate,
        is_upgrade_pending: ticket.upgrade.is_some(),
        detail,
        message,
    };
    match is_downgraded {
        true => AcquireAnswer::downgraded(granted, ticket.asked, Reason::PartialCapacity.document_word()),
        false => AcquireAnswer::granted(granted),
    }
}

/// There are none yet. `asked` is the degree, if the caller said one.
pub(super) fn waits(waits: &Waits, asked: Option<NonZeroU32>) -> AcquireAnswer {
    AcquireAnswer::waiting(Waiting {
        usage: Some(usage(waits.level)),
        requested: Some(asked.map_or(waits.requested, |asked| asked.get().into())),
        wait_seconds: Some(waits.wait_seconds),
        queue_position: Some(waits.position),
        eta_seconds: waits.estimate.map(|estimate| seconds(estimate.p50.as_secs())),
        ..refusal(waits.reason)
    })
}

/// There will never be any.
pub(super) fn refused(reason: Reason, asked: Option<NonZeroU32>, level: Option<Level>) -> AcquireAnswer {
    AcquireAnswer::waiting(Waiting {
        usage: level.map(usage),
        requested: asked.map(|asked| asked.get().into()),
        ..refusal(reason)
    })
}

fn refusal(reason: Reason) -> Waiting {
    Waiting {
        reason: reason.document_word(),
        usage: None,
        requested: None,
        wait_seconds: None,
        queue_position: None,
        eta_seconds: None,
        detail: Some(reason.as_str().to_owned()),
        message: Some(reason.sentence().to_owned()),
    }
}

pub(super) fn released(released: &Released) -> ReleaseAnswer {
    let is_nothing = !released.released && !released.cancelled_waiting;
    ReleaseAnswer {
        released: released.released,
        released_connections: released.units,
        current_usage: released.level.usage,
        cancelled_waiting: released.cancelled_waiting,
        reason: None,
        message: is_nothing.then(|| "nothing is held or waited for under this key".to_owned()),
    }
}

/// Nothing came back, for this reason.
pub(super) fn not_released(reason: Option<&'static str>, message: &str, current_usage: u64) -> ReleaseAnswer {
    ReleaseAnswer {
        released: false,
        released_connections: 0,
        current_usage,
        cancelled_waiting: false,
        reason,
        message: Some(message.to_owned()),
    }
}

/// How a pool stands, under the key of the document.
pub(super) fn source(record: &PoolRecord, now: Timestamp) -> (String, Source) {
    let settings = &record.settings;
    let level = level(record, now);
    let key = settings.external_id.map_or_else(|| settings.name.to_string(), |id| id.to_string());
    let source = Source {
        name: settings.name.to_string(),
        max_connections: level.max_units.into(),
        threshold: level.limit,
        current_usage: level.usage,
        available: level.available(),
        active_batches: record.active,
        waiting_batches: record.waiting,
        paused: settings.paused.is_some(),
        over_by: level.over_by(),
        suspect_batches: record.suspect,
    };
    (key, source)
}

/// How full a pool is.
pub(super) fn level(record: &PoolRecord, now: Timestamp) -> Level {
    Level::of(&record.settings, record.usage, now)
}

fn usage(level: Level) -> Usage {
    Usage {
        current: level.usage,
        available: level.available(),
        available_to_max: u64::from(level.max_units).saturating_sub(level.usage),
        over_by: level.over_by(),
    }
}

fn seconds(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
