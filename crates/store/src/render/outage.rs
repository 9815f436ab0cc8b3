//! Renders that wait because nexrender or the NAS failed, when all of it works again.

use super::RENDER_WAITING;
use crate::error::Result;
use crate::statement::statements;
use crate::tx::Renders;
use tidemill_domain::render::Failure;
use tidemill_domain::render::retry_rules::ends_with_outage;
use tidemill_domain::time::Timestamp;

impl Renders<'_> {
    /// Ends the waits of renders that failed with an outage. Returns how many. Needs a transaction.
    pub async fn end_waits(&mut self, by: &str) -> Result<u64> {
        let failures = Failure::ALL.into_iter().filter(|failure| ends_with_outage(*failure));
        let codes: Vec<String> = failures.map(|failure| failure.code().to_string()).collect();
        let now = self.now().await?;
        let ended = self.render_end_waits(&codes, by, now).await?;
        if ended > 0 {
            self.wake(RENDER_WAITING);
        }
        Ok(ended)
    }
}

statements! {
    /// Locks the rows that it changes; a worker that claims one of them meanwhile was first.
    fn render_end_waits(codes: &[String], by: &str, now: Timestamp) -> u64 {
        "update render_queue
         set run_after = $3, updated_at = $3, changed_by = $2, revision = revision + 1
         where status = 'pending' and run_after > $3 and error_code {in $1}"
    }
}
