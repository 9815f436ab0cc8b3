//! Renders that one request changes together: in shares, each render by the rule and with the audit entry of its own.

use super::{date, object, status};
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters, checked};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde_json::json;
use tidemill_api::render::selection::{
    ChangeRenders, ChangedRenders, PrioritizeRender, PrioritizeRenders, RefusedRender, RenderMatch,
};
use tidemill_domain::action::Action;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::selection::{PriorityChange, SELECTED_MAX, of_each};
use tidemill_engine::render::{Selection, SelectionError};
use tidemill_store::Tx;
use tidemill_store::render::{RenderChanged, RenderFilter};

impl ActionBody for ChangeRenders {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let selection = selection(self.ids.as_deref(), self.filter.as_ref())?;
        Ok((Some(checked(&self.reason)?), Parameters::Renders(selection, None)))
    }
}

impl ActionBody for PrioritizeRender {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let reason = self.reason.as_deref().map(checked).transpose()?;
        Ok((reason, Parameters::Priority(priority(self.to, self.by)?)))
    }
}

impl ActionBody for PrioritizeRenders {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let reason = self.reason.as_deref().map(checked).transpose()?;
        let selection = selection(self.ids.as_deref(), self.filter.as_ref())?;
        Ok((reason, Parameters::Renders(selection, Some(priority(self.to, self.by)?))))
    }
}

pub(crate) fn priority(to: Option<i32>, by: Option<i32>) -> Result<PriorityChange, Problem> {
    PriorityChange::of(to, by).ok_or_else(|| {
        let what = "the request must have either `to` or `by`";
        Problem::bad_request(what, "send one of them, a whole number such as 10")
    })
}

fn selection(ids: Option<&[i64]>, filter: Option<&RenderMatch>) -> Result<Selection, Problem> {
    match (ids, filter) {
        (Some(ids), None) if (1..=SELECTED_MAX).contains(&ids.len()) => {
            Ok(Selection::Ids(ids.iter().copied().map(RenderId::new).collect()))
        }
        (Some(_), None) => Err(Problem::bad_request(
            "the list of ids is empty or too long",
            format!("send 1 to {SELECTED_MAX} ids, or use a filter"),
        )),
        (None, Some(found)) => {
            let filter = RenderFilter {
                status: found.status.as_deref().map(status).transpose()?,
                composition: found.composition.clone(),
                worker: found.worker.clone(),
                date: found.date.as_deref().map(date).transpose()?,
                batch: found.batch.map(RenderId::new),
                ..RenderFilter::default()
            };
            let text = found.text.clone().filter(|text| !text.trim().is_empty());
            if filter == RenderFilter::default() && text.is_none() && !found.late {
                return Err(Problem::bad_request(
                    "the filter has no condition",
                    "give `status`, `composition`, `worker`, `date`, `batch`, `text` or `late`, or name renders in `ids`",
                ));
            }
            Ok(Selection::Matching { filter, text, is_late: found.late })
        }
        (None, None) | (Some(_), Some(_)) => Err(Problem::bad_request(
            "the request must have either `ids` or `filter`",
            "send one of them; a filter needs at least one condition",
        )),
    }
}

/// One of the actions that need nothing but the render and a change of its priority.
pub(super) async fn change(
    request: &ActionRequest<'_>,
    id: RenderId,
    priority: Option<PriorityChange>,
    tx: &mut Tx,
) -> Result<RenderChanged, Problem> {
    let (actor, reason) = (request.actor(), request.reason);
    Ok(match (of_each(request.action), priority) {
        (Action::RenderCancel, _) => tx.renders().cancel(id, &actor, reason).await?,
        (Action::RenderRetry, _) => tx.renders().retry(id, &actor, reason).await?,
        (Action::RenderPrioritize, Some(change)) => {
            tx.renders().prioritize(id, change, &actor, reason).await?
        }
        _ => return Err(request.mistaken()),
    })
}

/// Renders that one transaction changes. It keeps a lock on each of them, and until it ends, their workers cannot renew
/// their leases.
const SHARE: usize = 100;

/// Changes the selected renders, and says which were refused. A token that is limited to some compositions changes all or
/// none. If the database fails after the first share, the answer names those that were not tried; so does the answer to a
/// repeated request while this one runs.
pub(crate) async fn run(
    request: &ActionRequest<'_>,
    selection: &Selection,
    priority: Option<PriorityChange>,
) -> Result<(u16, String), Problem> {
    let mut answer = ChangedRenders::default();
    let mut done = request
        .caller
        .once(&request.what, async |tx| {
            let ids = selection.ids(tx, request.action).await?;
            if ids.len() > SHARE {
                check_scopes(request, &ids, tx).await?;
            }
            answer.not_tried = ids.into_iter().map(RenderId::get).collect();
            share(request, priority, &mut answer, tx).await
        })
        .await?;
    while !answer.not_tried.is_empty() {
        let mut grown = answer.clone();
        let further = request.caller.further(async |tx| share(request, priority, &mut grown, tx).await).await;
        match further {
            Ok(answered) => (answer, done) = (grown, answered),
            Err(problem) => {
                let (rest, why) = (answer.not_tried.len(), problem.detail());
                tracing::warn!("{}: {rest} renders were not tried: {why}", request.action);
                break;
            }
        }
    }
    Ok(done)
}

/// Later shares cannot undo the first one.
async fn check_scopes(request: &ActionRequest<'_>, ids: &[RenderId], tx: &mut Tx) -> Result<(), Problem> {
    for id in ids {
        if let Some(record) = tx.renders().find(*id).await? {
            request.check_scope(&object(record.composition.as_deref()))?;
        }
    }
    Ok(())
}

/// Changes the next renders that were not tried.
async fn share(
    request: &ActionRequest<'_>,
    priority: Option<PriorityChange>,
    answer: &mut ChangedRenders,
    tx: &mut Tx,
) -> Outcome {
    let rest = answer.not_tried.split_off(SHARE.min(answer.not_tried.len()));
    for id in std::mem::replace(&mut answer.not_tried, rest).into_iter().map(RenderId::new) {
        match change(request, id, priority, tx).await? {
            RenderChanged::Done { record, .. } => {
                request.check_scope(&object(record.composition.as_deref()))?;
                answer.changed.push(id.get());
            }
            RenderChanged::Refused(refusal) => answer.refused.push(RefusedRender::new(id, Some(refusal))),
            RenderChanged::NoSuchRender => answer.refused.push(RefusedRender::new(id, None)),
        }
    }
    Ok((StatusCode::OK, json!(answer)))
}

impl From<SelectionError> for Problem {
    fn from(error: SelectionError) -> Self {
        match error {
            SelectionError::Selection(bad) => Self::new(bad.code(), bad.to_string(), bad.fix()),
            SelectionError::Store(error) => error.into(),
        }
    }
}
