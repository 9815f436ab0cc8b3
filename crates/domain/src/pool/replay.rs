//! The auditor: follows a log from its beginning and checks, at every step and with code of its own, that no grant went
//! beyond the limit, that nobody held two tickets, and that what was decided can have happened.

use super::event::{Event, Record};
use super::ledger::{Contradiction, Ledger};
use super::settings::Settings;

/// What a log says.
#[derive(Clone, PartialEq, Debug)]
pub struct Audit {
    /// The state in which it ends.
    pub ledger: Ledger,
    /// How many records were followed.
    pub records: u64,
    /// The greatest usage on the way.
    pub peak: u64,
}

/// Follows `records`, which begin with the making of the pool or with a snapshot.
pub fn replay<'a>(
    settings: &Settings,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<Audit, Contradiction> {
    let mut ledger: Option<Ledger> = None;
    let (mut count, mut peak) = (0, 0);
    for record in records {
        let ledger =
            ledger.get_or_insert_with(|| Ledger::new(settings.clone(), record.version.saturating_sub(1)));
        let before: u64 = ledger.tickets().map(super::Ticket::units).sum();
        ledger.replay(record)?;
        let usage: u64 = ledger.tickets().map(super::Ticket::units).sum();
        let limit = ledger.settings().limit_at(record.at);
        if let (Event::Granted { ticket, .. } | Event::Resized { ticket, .. }, true) =
            (&record.event, usage > before && usage > limit)
        {
            return Err(Contradiction::OverAdmitted { ticket: *ticket, usage, limit });
        }
        count += 1;
        peak = peak.max(usage);
    }
    let ledger = ledger.unwrap_or_else(|| Ledger::new(settings.clone(), 0));
    Ok(Audit { ledger, records: count, peak })
}
