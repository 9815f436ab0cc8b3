//! What is done when the database's clock has gone back: leases and waits that were counted from an instant which now
//! lies ahead are shortened, once, by the rule of [`step_back`](tidemill_domain::step_back). Otherwise a dead holder
//! would keep its lease for the size of the step.

use crate::error::StoreError;
use crate::tx::Leases;

impl Leases<'_> {
    /// Shortens the leases of processes, relays, renders and tickets of pools, and those with a term of their own, that
    /// were granted or renewed later than now. Returns how many. Rows in somebody's hands are left for the next time.
    pub async fn shorten_leases(&mut self) -> Result<u64, StoreError> {
        let now = self.fake_now().map(Into::into);
        Ok(self.step_back_leases(now).await?)
    }

    /// Shortens the waits before the next attempt at an event, a render or the delivery of an alert. Looks at all that
    /// wait, so it is for when the clock is known to have gone back.
    pub async fn shorten_waits(&mut self) -> Result<u64, StoreError> {
        let now = self.fake_now().map(Into::into);
        Ok(self.step_back_waits(now).await?)
    }
}
