//! After the database's clock has gone back, shortens leases and waits that were counted from an instant now in the
//! future, once, by the rule of [`step_back`](tidemill_domain::step_back). Otherwise a dead holder would keep its lease
//! for the size of the step.

use crate::error::Result;
use crate::tx::Leases;

impl Leases<'_> {
    /// Shortens the leases of processes, relays, renders and tickets, and those with their own term, that were granted
    /// or renewed in the future. Returns how many. Skips locked rows.
    pub async fn shorten_leases(&mut self) -> Result<u64> {
        let now = self.fake_now();
        Ok(self.step_back_processes(now).await?
            + self.step_back_held_leases(now).await?
            + self.step_back_relays(now).await?
            + self.step_back_renders_at_work(now).await?
            + self.step_back_tickets(now).await?)
    }

    /// Shortens the waits before the next attempt at an event, a render or an alert's delivery. Reads everything that
    /// waits, so call it only when the clock is known to have gone back.
    pub async fn shorten_waits(&mut self) -> Result<u64> {
        let now = self.fake_now();
        Ok(self.step_back_failed_events(now).await?
            + self.step_back_failed_renders(now).await?
            + self.step_back_deliveries(now).await?)
    }
}
