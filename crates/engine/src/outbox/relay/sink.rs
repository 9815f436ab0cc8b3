//! A sink that takes nothing: how long that is borne.

use super::member::{Ended, Member};
use tidemill_domain::time::Monotonic;
use tidemill_store::outbox::relay::View;

/// A sink that takes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct SinkDown {
    since: Monotonic,
    /// How often it was asked since then.
    pub(super) failures: u32,
}

impl SinkDown {
    /// It has taken nothing, once more.
    pub(super) fn again(before: Option<Self>, now: Monotonic) -> Self {
        let before = before.unwrap_or(Self { since: now, failures: 0 });
        Self { failures: before.failures.saturating_add(1), ..before }
    }
}

impl Member<'_> {
    /// A relay whose sink takes nothing for long makes room for others, where there are some: theirs may.
    pub(super) fn check_sink(&self, view: &View) -> Result<(), Ended> {
        let options = &self.relay.options;
        let Some(down) = self.sink_down else { return Ok(()) };
        let is_long = self.now().since(down.since) > options.timeout + options.lease;
        // What has a fixed share is taken by nobody else.
        let others = view.live.iter().filter(|live| live.id != self.id).count();
        if is_long && others > 0 && options.instance.is_none() { Err(Ended::Aside) } else { Ok(()) }
    }
}
