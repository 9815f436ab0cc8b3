//! Every action of operators, declared once: who may do it, what it asks for first, and by which names the API, the
//! dashboard and the command line know it. Routes, buttons, question sheets and the description of the API follow from
//! this table; whether an action is possible now is a rule of its noun.

use crate::access::Permission::{self, Administer, Operate};
use std::fmt::Display;

crate::words! {
    /// An action. Its word is that of the audit log, where actions on many objects at once are recorded one by one.
    #[derive(Hash)]
    pub enum Action {
        ExecutionRestart = "execution.restart",
        ExecutionStop = "execution.stop",
        ExecutionAbandon = "execution.abandon",
        ExecutionRecover = "execution.recover",
        SchedulePause = "schedule.pause",
        ScheduleResume = "schedule.resume",
        PoolPause = "pool.pause",
        PoolResume = "pool.resume",
        PoolRemove = "pool.remove",
        LeaseRelease = "pool.release",
        EventReplay = "event.replay",
        EventSkip = "event.skip",
        EventRedirect = "event.redirect",
        EventEdit = "event.edit",
        EventsReplay = "events.replay",
        EventsSkip = "events.skip",
        EventsRedirect = "events.redirect",
        RowsReplay = "rows.replay",
        RowsSkip = "rows.skip",
        RenderCancel = "render.cancel",
        RenderRetry = "render.retry",
        RenderRecover = "render.recover",
        RendersPoll = "renders.poll",
        AlertSilence = "alert.silence",
        AlertUnsilence = "alert.unsilence",
        TokenRevoke = "token.revoke",
    }
}

/// Whether an action needs a reason. The audit log keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    Required,
    Optional,
    /// There is no place for one.
    None,
}

/// What the dashboard asks before it does something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirmation {
    /// Nothing: a second click undoes the first, or a form was filled in anyway.
    Click,
    /// A sheet says what will happen.
    Sheet,
    /// A sheet, on which the number of the object has to be typed: this cannot be undone.
    Number,
}

/// What is declared about an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Declaration {
    pub permission: Permission,
    pub reason: Reason,
    pub confirmation: Confirmation,
    /// The method and the path of the API.
    pub method: &'static str,
    pub path: &'static str,
    /// Where the dashboard sends its form, if it offers the action. A sheet with a page of its own has the same path.
    pub page: Option<&'static str>,
    /// The subcommand of `tidemill`.
    pub command: &'static str,
    /// What it does, in one or two sentences.
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

const fn post(
    permission: Permission,
    reason: Reason,
    path: &'static str,
    command: &'static str,
) -> Declaration {
    let (confirmation, method) = (Confirmation::Click, "POST");
    Declaration { permission, reason, confirmation, method, path, page: None, command, about: "" }
}

const fn delete(
    permission: Permission,
    reason: Reason,
    path: &'static str,
    command: &'static str,
) -> Declaration {
    Declaration { method: "DELETE", ..post(permission, reason, path, command) }
}

impl Action {
    /// What is done, without to what: `stop`.
    pub fn verb(self) -> &'static str {
        self.as_str().split_once('.').map_or("", |(_, verb)| verb)
    }

    /// The verb as buttons have it: `Stop`.
    pub fn label(self) -> String {
        let mut letters = self.verb().chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
    }

    /// The command with what it is done to and the options that it needs, as a page tells it.
    pub fn command_for(self, object: impl Display) -> String {
        let declared = self.declaration();
        let reason = if declared.reason == Reason::Required { " --reason WHY" } else { "" };
        format!("tidemill {} {object}{reason}", declared.command)
    }

    pub const fn declaration(self) -> Declaration {
        use Confirmation::{Click, Number, Sheet};
        use Reason::{None, Optional, Required};
        match self {
            Self::ExecutionRestart => post(Operate, Optional, "/api/v1/executions/{id}/restart", "job restart")
                .on_page("/executions/{id}/restart", Click)
                .about("Goes on with an execution that failed or was stopped: a new execution of the same instance, in this server."),
            Self::ExecutionStop => post(Operate, Optional, "/api/v1/executions/{id}/stop", "job stop")
                .on_page("/executions/{id}/stop", Sheet)
                .about("Asks an execution to stop at the end of its chunk, wherever it runs."),
            Self::ExecutionAbandon => post(Operate, Required, "/api/v1/executions/{id}/abandon", "job abandon")
                .on_page("/executions/{id}/abandon", Number)
                .about("Gives up an execution that ended without success: its instance is never restarted."),
            Self::ExecutionRecover => post(Operate, Required, "/api/v1/executions/{id}/recover", "job recover")
                .about("Declares an execution over that nobody runs any more, so that it can be restarted."),
            Self::SchedulePause => post(Operate, Required, "/api/v1/schedules/{name}/pause", "schedule pause")
                .on_page("/schedules/{name}/pause", Sheet)
                .about("Keeps a schedule from firing until it is resumed. Nobody makes up for the ticks in between."),
            Self::ScheduleResume => post(Operate, Optional, "/api/v1/schedules/{name}/resume", "schedule resume")
                .on_page("/schedules/{name}/resume", Click)
                .about("Lets a schedule that is paused go on with its next tick."),
            Self::PoolPause => post(Operate, Required, "/api/v1/pools/{name}/pause", "pool pause")
                .on_page("/pools/{name}/pause", Click)
                .about("Lets nothing start in a pool until it is resumed. Whoever holds units keeps them."),
            Self::PoolResume => post(Operate, Optional, "/api/v1/pools/{name}/resume", "pool resume")
                .on_page("/pools/{name}/resume", Click)
                .about("Lets a pool that is paused go on."),
            Self::PoolRemove => delete(Administer, None, "/api/v1/pools/{name}", "pool rm")
                .about("Removes a pool that nobody uses or waits for."),
            Self::LeaseRelease => post(Operate, Required, "/api/v1/pool-leases/{id}/release", "pool release")
                .on_page("/pools/{name}/tickets/{id}/release", Sheet)
                .about("Takes a lease away, for a reason: whoever holds it is certainly gone, or should be."),
            Self::EventReplay => post(Operate, Required, "/api/v1/outbox/failed/{id}/replay", "outbox replay")
                .on_page("/outbox/failed/{id}/replay", Sheet)
                .about("Tries an event again at once, as if it had never been refused."),
            Self::EventSkip => post(Operate, Required, "/api/v1/outbox/failed/{id}/skip", "outbox skip")
                .on_page("/outbox/failed/{id}/skip", Number)
                .about("Never publishes an event; those behind it go on."),
            Self::EventRedirect => post(Operate, Required, "/api/v1/outbox/failed/{id}/redirect", "outbox redirect")
                .about("Publishes an event to another topic, at once or when its turn comes."),
            // It writes the payload.
            Self::EventEdit => post(Administer, Required, "/api/v1/outbox/failed/{id}/edit", "outbox edit")
                .about("Publishes something else in place of an event, at once or when its turn comes."),
            Self::EventsReplay => post(Operate, Required, "/api/v1/outbox/failed/replay", "outbox replay")
                .on_page("/outbox/failed/replay", Sheet)
                .about("Tries these events again at once."),
            Self::EventsSkip => post(Operate, Required, "/api/v1/outbox/failed/skip", "outbox skip")
                .on_page("/outbox/failed/skip", Sheet)
                .about("Never publishes these events; those behind them go on."),
            Self::EventsRedirect => post(Operate, Required, "/api/v1/outbox/failed/redirect", "outbox redirect")
                .about("Publishes these events to another topic, at once or when their turn comes."),
            Self::RowsReplay => post(Operate, Required, "/api/v1/outbox/attached/{schema}/{table}/replay", "outbox replay")
                .about("Tries rows that have FAILED again at once, as if they had never been."),
            Self::RowsSkip => post(Operate, Required, "/api/v1/outbox/attached/{schema}/{table}/skip", "outbox skip")
                .about("Leaves rows FAILED for good; those behind them go on."),
            Self::RenderCancel => post(Operate, Required, "/api/v1/renders/{id}/cancel", "render cancel")
                .on_page("/render/{id}/cancel", Sheet)
                .about("Gives a render up. What a node is rendering goes on there, and its file is thrown away."),
            Self::RenderRetry => post(Operate, Required, "/api/v1/renders/{id}/retry", "render retry")
                .on_page("/render/{id}/retry", Sheet)
                .about("Tries a render again at once that failed, was cancelled, or waits for another attempt."),
            Self::RenderRecover => post(Operate, Required, "/api/v1/renders/{id}/recover", "render recover")
                .on_page("/render/{id}/recover", Sheet)
                .about("Takes a render from a worker that has vanished, without waiting for the next look."),
            Self::RendersPoll => post(Operate, Optional, "/api/v1/renders/poll", "render poll")
                .about("Lets all workers look for renders at once."),
            Self::AlertSilence => post(Operate, Required, "/api/v1/alerts/silences", "alert silence")
                .on_page("/alerts/silence", Click)
                .about("Keeps people from being told of an alert for a while. The alert itself goes on."),
            Self::AlertUnsilence => delete(Operate, None, "/api/v1/alerts/silences", "alert unsilence")
                .on_page("/alerts/unsilence", Click)
                .about("Ends a silence before its time."),
            Self::TokenRevoke => delete(Administer, None, "/api/v1/tokens/{id}", "token revoke")
                .on_page("/settings/tokens/{id}/revoke", Sheet)
                .about("Ends a token and every session that was opened with it."),
        }
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
