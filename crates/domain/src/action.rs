//! Every operator action, declared once: permission, reason, confirmation, and its names in the API, on the dashboard
//! and on the command line. Routes, buttons, question sheets and the description of the API follow from this table.
//! Whether an action is possible now is a rule of its noun.

use crate::access::Permission::{self, Administer, Operate};
use Confirmation::{Click, Number, Sheet};
use Reason::{Optional, Required};
use std::fmt::Display;

crate::words! {
    /// Its word is the verb of the audit log. Actions on many objects are recorded there one by one.
    #[derive(Hash)]
    pub enum Action => declaration: Declaration {
        ExecutionRestart = "execution.restart" => call("POST", Operate, Optional, "/api/v1/executions/{id}/restart", "job restart")
            .on_page("/executions/{id}/restart", Click)
            .about("Restarts a failed or stopped execution: this server runs a new execution of the same instance."),
        ExecutionStop = "execution.stop" => call("POST", Operate, Optional, "/api/v1/executions/{id}/stop", "job stop")
            .on_page("/executions/{id}/stop", Sheet)
            .about("Stops an execution at the end of its chunk, on whichever host it runs."),
        ExecutionAbandon = "execution.abandon" => call("POST", Operate, Required, "/api/v1/executions/{id}/abandon", "job abandon")
            .on_page("/executions/{id}/abandon", Number)
            .about("Abandons a failed or stopped execution. Its instance can never be restarted."),
        ExecutionRecover = "execution.recover" => call("POST", Operate, Required, "/api/v1/executions/{id}/recover", "job recover")
            .about("Marks an execution as failed whose process has disappeared, so that you can restart it."),
        SchedulePause = "schedule.pause" => call("POST", Operate, Required, "/api/v1/schedules/{name}/pause", "schedule pause")
            .on_page("/schedules/{name}/pause", Sheet)
            .about("Pauses a schedule. Ticks that it misses are not made up for."),
        ScheduleResume = "schedule.resume" => call("POST", Operate, Optional, "/api/v1/schedules/{name}/resume", "schedule resume")
            .on_page("/schedules/{name}/resume", Click)
            .about("Resumes a paused schedule with its next tick."),
        PoolPause = "pool.pause" => call("POST", Operate, Required, "/api/v1/pools/{name}/pause", "pool pause")
            .on_page("/pools/{name}/pause", Click)
            .about("Pauses a pool: it grants no units until you resume it. Current holders keep theirs."),
        PoolResume = "pool.resume" => call("POST", Operate, Optional, "/api/v1/pools/{name}/resume", "pool resume")
            .on_page("/pools/{name}/resume", Click)
            .about("Resumes a paused pool."),
        BreakerOpen = "breaker.open" => call("POST", Operate, Required, "/api/v1/pools/{name}/breaker/open", "pool breaker open")
            .on_page("/pools/{name}/breaker/open", Sheet)
            .about("Opens the circuit breaker of a pool: no request starts until you close it. Current holders keep their units."),
        BreakerClose = "breaker.close" => call("POST", Operate, Required, "/api/v1/pools/{name}/breaker/close", "pool breaker close")
            .on_page("/pools/{name}/breaker/close", Sheet)
            .about("Closes the circuit breaker of a pool at once: its whole limit applies again."),
        PoolDelete = "pool.delete" => call("DELETE", Administer, Reason::None, "/api/v1/pools/{name}", "pool delete")
            .about("Deletes a pool that has no leases and no waiting requests."),
        LeaseRelease = "pool.release" => call("POST", Operate, Required, "/api/v1/pool-leases/{id}/release", "pool release")
            .on_page("/pools/{name}/tickets/{id}/release", Sheet)
            .about("Releases a lease on behalf of its holder. Use it when the holder is gone."),
        EventReplay = "event.replay" => call("POST", Operate, Required, "/api/v1/outbox/failed/{id}/replay", "outbox replay")
            .on_page("/outbox/failed/{id}/replay", Sheet)
            .about("Publishes a failed event again at once."),
        EventSkip = "event.skip" => call("POST", Operate, Required, "/api/v1/outbox/failed/{id}/skip", "outbox skip")
            .on_page("/outbox/failed/{id}/skip", Number)
            .about("Skips a failed event for good. Later events of the aggregate continue."),
        EventRedirect = "event.redirect" => call("POST", Operate, Required, "/api/v1/outbox/failed/{id}/redirect", "outbox redirect")
            .about("Publishes a failed event to another topic."),
        // It writes the payload.
        EventEdit = "event.edit" => call("POST", Administer, Required, "/api/v1/outbox/failed/{id}/edit", "outbox edit")
            .about("Replaces the content of a failed event and publishes it."),
        EventsReplay = "events.replay" => call("POST", Operate, Required, "/api/v1/outbox/failed/replay", "outbox replay")
            .on_page("/outbox/failed/replay", Sheet)
            .about("Publishes the selected failed events again at once."),
        EventsSkip = "events.skip" => call("POST", Operate, Required, "/api/v1/outbox/failed/skip", "outbox skip")
            .on_page("/outbox/failed/skip", Sheet)
            .about("Skips the selected failed events for good. Later events of their aggregates continue."),
        EventsRedirect = "events.redirect" => call("POST", Operate, Required, "/api/v1/outbox/failed/redirect", "outbox redirect")
            .about("Publishes the selected failed events to another topic."),
        RowsReplay = "rows.replay" => call("POST", Operate, Required, "/api/v1/outbox/attached/{schema}/{table}/replay", "outbox replay")
            .about("Publishes FAILED rows of an attached table again at once."),
        RowsSkip = "rows.skip" => call("POST", Operate, Required, "/api/v1/outbox/attached/{schema}/{table}/skip", "outbox skip")
            .about("Skips FAILED rows of an attached table for good. Later rows continue."),
        RenderCancel = "render.cancel" => call("POST", Operate, Required, "/api/v1/renders/{id}/cancel", "render cancel")
            .on_page("/render/{id}/cancel", Sheet)
            .about("Cancels a render. A node that has started finishes its work, and the file is discarded."),
        RenderApprove = "render.approve" => call("POST", Operate, Optional, "/api/v1/renders/{id}/approve", "render approve")
            .on_page("/render/{id}/approve", Sheet)
            .about("Approves the file of a render that waits for it. The file is published."),
        RenderReject = "render.reject" => call("POST", Operate, Required, "/api/v1/renders/{id}/reject", "render reject")
            .on_page("/render/{id}/reject", Sheet)
            .about("Rejects the file of a render that waits for approval. The render fails, and the file is discarded."),
        RenderRetry = "render.retry" => call("POST", Operate, Required, "/api/v1/renders/{id}/retry", "render retry")
            .on_page("/render/{id}/retry", Sheet)
            .about("Retries a render at once: one that failed, was cancelled, or waits for another attempt."),
        RenderCorrect = "render.correct" => call("POST", Operate, Optional, "/api/v1/renders/{id}/correct", "render correct")
            .on_page("/render/{id}/correct", Sheet)
            .about("Renders a render that has ended again, with corrected data."),
        RenderRecover = "render.recover" => call("POST", Operate, Required, "/api/v1/renders/{id}/recover", "render recover")
            .on_page("/render/{id}/recover", Sheet)
            .about("Takes a render from a worker that has disappeared, so that another worker claims it."),
        RenderPrioritize = "render.prioritize" => call("POST", Operate, Optional, "/api/v1/renders/{id}/prioritize", "render prioritize")
            .on_page("/render/{id}/prioritize", Sheet)
            .about("Changes the priority of a waiting render, and so its place in the queue."),
        // Each render is recorded by itself, such as `render.cancel`.
        RendersCancel = "renders.cancel" => call("POST", Operate, Required, "/api/v1/renders/cancel", "render cancel")
            .on_page("/render/cancel", Sheet)
            .about("Cancels the selected renders."),
        RendersRetry = "renders.retry" => call("POST", Operate, Required, "/api/v1/renders/retry", "render retry")
            .on_page("/render/retry", Sheet)
            .about("Retries the selected renders at once."),
        RendersPrioritize = "renders.prioritize" => call("POST", Operate, Optional, "/api/v1/renders/prioritize", "render prioritize")
            .on_page("/render/prioritize", Sheet)
            .about("Changes the priority of the selected waiting renders."),
        // Recorded as `render.retry` of each.
        BatchRetry = "batch.retry" => call("POST", Operate, Required, "/api/v1/renders/batches/{id}/retry", "render retry --batch")
            .on_page("/render/batches/{id}/retry", Sheet)
            .about("Retries the failed renders of a batch at once."),
        RendersPoll = "renders.poll" => call("POST", Operate, Optional, "/api/v1/renders/poll", "render poll")
            .about("Wakes all render workers."),
        AlertSilence = "alert.silence" => call("POST", Operate, Required, "/api/v1/alerts/silences", "alert silence")
            .on_page("/alerts/silence", Click)
            .about("Silences an alert for a while. Notifications resume when the silence ends."),
        AlertUnsilence = "alert.unsilence" => call("DELETE", Operate, Reason::None, "/api/v1/alerts/silences", "alert unsilence")
            .on_page("/alerts/unsilence", Click)
            .about("Ends a silence early."),
        TokenDelete = "token.delete" => call("DELETE", Administer, Reason::None, "/api/v1/tokens/{id}", "token delete")
            .on_page("/settings/tokens/{id}/delete", Sheet)
            .about("Deletes a token and every session that was opened with it."),
    }
}

/// Whether an action needs a reason. The audit log keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    Required,
    Optional,
    None,
}

/// What the dashboard asks first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirmation {
    /// Nothing: another click undoes the action, or the user has filled in a form.
    Click,
    /// A sheet that says what will happen.
    Sheet,
    /// A sheet on which you type the number of the object, because the action cannot be undone.
    Number,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Declaration {
    pub permission: Permission,
    pub reason: Reason,
    pub confirmation: Confirmation,
    /// Of the API.
    pub method: &'static str,
    pub path: &'static str,
    /// Path of the form on the dashboard. A sheet has the same path.
    pub page: Option<&'static str>,
    /// Subcommand of `tidemill`.
    pub command: &'static str,
    pub about: &'static str,
}

impl Declaration {
    const fn on_page(mut self, page: &'static str, confirmation: Confirmation) -> Self {
        self.page = Some(page);
        self.confirmation = confirmation;
        self
    }

    const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }
}

const fn call(
    method: &'static str,
    permission: Permission,
    reason: Reason,
    path: &'static str,
    command: &'static str,
) -> Declaration {
    let confirmation = Confirmation::Click;
    Declaration { permission, reason, confirmation, method, path, page: None, command, about: "" }
}

impl Action {
    /// Such as `stop`.
    pub fn verb(self) -> &'static str {
        self.as_str().split_once('.').map_or("", |(_, verb)| verb)
    }

    /// The verb on buttons: `Stop`.
    pub fn label(self) -> String {
        let mut letters = self.verb().chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
    }

    /// The whole command, for pages and hints.
    pub fn command_for(self, object: impl Display) -> String {
        let declared = self.declaration();
        let reason = if declared.reason == Reason::Required { " --reason WHY" } else { "" };
        format!("tidemill {} {object}{reason}", declared.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_actions_share_a_route() {
        let all = Action::ALL.map(Action::declaration);
        let routes: HashSet<_> = all.iter().map(|action| (action.method, action.path)).collect();
        let pages: Vec<_> = all.iter().filter_map(|action| action.page).collect();

        assert_eq!(routes.len(), all.len());
        assert_eq!(pages.iter().collect::<HashSet<_>>().len(), pages.len());
    }

    #[test]
    fn an_action_is_called_by_its_verb() {
        assert_eq!(Action::ExecutionStop.verb(), "stop");
        assert_eq!(Action::ExecutionStop.label(), "Stop");
        assert_eq!(Action::RenderRetry.command_for(7), "tidemill render retry 7 --reason WHY");
        assert_eq!(Action::PoolResume.command_for("etl"), "tidemill pool resume etl");
    }
}
