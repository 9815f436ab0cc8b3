//! The request for a page: visitor, preferences and address.

use crate::access::{Principal, Via};
use crate::dashboard::preferences::{Preferences, Switch};
use crate::dashboard::{Times, form};
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Html;
use tidemill_domain::access::Permission;
use tidemill_domain::time::Timestamp;

/// The address of the overview: the base path, or `/`.
pub(crate) fn home(state: &State) -> String {
    let base = state.path("");
    if base.is_empty() { "/".to_owned() } else { base }
}

/// The response of a page.
pub(crate) type PageResult = Result<Html<String>, Problem>;

#[derive(Clone, Debug)]
pub(crate) struct PageContext {
    pub(crate) state: State,
    pub(crate) principal: Principal,
    pub(crate) preferences: Preferences,
    /// The address of the page. For a form, the page above its path.
    pub(crate) address: String,
    /// Whether this is the response to a form.
    pub(crate) is_answer: bool,
}

impl FromRequestParts<State> for PageContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Principal>().cloned();
        let is_answer = !parts.method.is_safe();
        let (path, query) = if is_answer {
            (parts.uri.path().rsplit_once('/').map_or("", |(above, _)| above), None)
        } else {
            (parts.uri.path(), parts.uri.query())
        };
        let page = if matches!(path, "" | "/") { home(state) } else { state.path(path) };
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        Ok(Self {
            state: state.clone(),
            principal: principal.ok_or_else(Problem::unguarded)?,
            preferences: Preferences::of(&parts.headers),
            address: format!("{page}{query}"),
            is_answer,
        })
    }
}

impl PageContext {
    /// The visitor as the caller of a change; `key` is the idempotency key of the form.
    pub(crate) fn caller(&self, key: &str) -> Caller {
        let (state, principal) = (self.state.clone(), self.principal.clone());
        Caller { state, principal, headers: form::key_header(key) }
    }

    pub(crate) fn times(&self, now: Timestamp) -> Times {
        Times::new(self.preferences.time, now)
    }

    /// The times of pages about renders.
    pub(crate) fn render_times(&self, now: Timestamp) -> Times {
        self.times(now).in_zone(&self.state.inner().parts.render.zone)
    }

    /// Why buttons for this permission are disabled; none when they are not. The server checks permissions again.
    pub(crate) fn refusal(&self, permission: Permission) -> Option<String> {
        if !self.principal.may(permission) {
            return Some(format!("The role {} may not {}.", self.principal.role, permission.as_str()));
        }
        (self.preferences.read_only == Switch::On).then(|| "Read-only mode is on.".to_owned())
    }

    /// [`refusal`](Self::refusal) for one object: a visitor can be limited to some.
    pub(crate) fn refusal_of(&self, permission: Permission, object: &str) -> Option<String> {
        let limited = || self.principal.check_scope(object).err().map(|problem| problem.detail().to_owned());
        self.refusal(permission).or_else(limited)
    }

    /// Whether the visitor may change nothing, so that read-only mode makes no difference.
    pub(crate) fn is_viewer(&self) -> bool {
        !self.principal.may(Permission::Operate)
    }

    pub(crate) fn has_session(&self) -> bool {
        matches!(self.principal.via, Via::Session { .. })
    }
}
