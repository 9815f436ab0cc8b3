//! Actions on many renders: the boxes and buttons of a list, the question before, and what came of each render. A question
//! holds the renders that it is about, so that what matches later is left alone.

use super::page::{RenderQuery, tabs};
use crate::api::render::selection::priority;
use crate::dashboard::form::{Pairs, field};
use crate::dashboard::operate::ours;
use crate::dashboard::part::{encoded, given, list_table, plural, unless_refused};
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, reason_field};
use crate::dashboard::{Frame, PageContext, PageResult, PageSnapshot, Section, form};
use crate::operate::{ActionRequest, Parameters, checked};
use crate::problem::Problem;
use maud::{Markup, html};
use serde_json::Value;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::render::selection::{PriorityChange, check_count, of_each, statuses};
use tidemill_domain::render::{RenderId, Status};
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::{Selection, SelectionError};

const ACTIONS: [Action; 3] = [Action::RendersRetry, Action::RendersCancel, Action::RendersPrioritize];

/// Ids that a question lists; it says how many there are in all.
const LISTED: usize = 20;

/// A list of renders with boxes, and the buttons for those that are picked, and for all that match the query.
pub(super) fn form(
    visit: &PageContext,
    list: &Markup,
    all: Option<(&RenderQuery, Option<Status>)>,
) -> Markup {
    let refusal = visit.refusal(Permission::Operate);
    let address = |action: Action| visit.state.path(action.declaration().page.unwrap_or_default());
    let matching = |action: &Action| all.is_some_and(|(_, status)| statuses(*action, status).is_ok());
    let all_of = |query: &RenderQuery, action: Action| {
        let more = format!("all=1&back={}", encoded(&visit.address));
        format!("{}{}", address(action), query.query(&query.status, &more))
    };
    let buttons = html! {
        "Selected: "
        @for action in ACTIONS { button formaction=(address(action)) { (action.label()) "…" } }
        @if let Some((query, _)) = all {
            @if ACTIONS.iter().any(matching) { " All that match: " }
            @for action in ACTIONS.into_iter().filter(|action| matching(action)) {
                a.button href=(all_of(query, action)) { (action.label()) " all…" }
            }
        }
    };
    html! {
        form method="get" action=(address(Action::RendersRetry)) {
            input type="hidden" name="back" value=(visit.address);
            (list)
            div.row.body { (unless_refused(refusal.as_deref(), "Retry selected…", &buttons)) }
        }
    }
}

/// The fields of a change of priority.
pub(super) fn priority_fields() -> Markup {
    html! {
        label {
            "Priority"
            select name="how" { option value="by" { "raise by (lower: -10)" } option value="to" { "set to" } }
        }
        label { "Number" input name="priority" type="number" required value="10" autocomplete="off"; }
    }
}

pub(crate) fn priority_change(how: &str, number: &str) -> Result<PriorityChange, Problem> {
    let number = number
        .trim()
        .parse()
        .map_err(|_| Problem::bad_request("the priority is not a whole number", "use a number such as 10"))?;
    if how == "to" { priority(Some(number), None) } else { priority(None, Some(number)) }
}

/// Renders that are named, or all that match.
fn selection(pairs: &Pairs, now: Timestamp) -> Result<Selection, Problem> {
    if field(pairs, "all") == "1" {
        return RenderQuery::of_fields(pairs).selection(now);
    }
    named(pairs)
}

fn named(pairs: &Pairs) -> Result<Selection, Problem> {
    let named = pairs.iter().filter(|(name, _)| name == "id").flat_map(|(_, ids)| ids.split(','));
    let ids: Option<Vec<_>> = named.map(|id| id.parse().ok().map(RenderId::new)).collect();
    let ids = ids
        .filter(|ids| !ids.is_empty())
        .ok_or_else(|| Problem::bad_request("no render is selected", "go back and select one or more"))?;
    check_count(ids.len()).map_err(SelectionError::from)?;
    Ok(Selection::Ids(ids))
}

fn back(visit: &PageContext, pairs: &Pairs) -> String {
    let back = ours(&visit.state, field(pairs, "back"));
    back.map_or_else(|| visit.state.path("/render"), str::to_owned)
}

pub(crate) async fn ask(action: Action, visit: &PageContext, pairs: &Pairs) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let ids = selection(pairs, common.now)?.ids(&mut tx, action).await?;
    let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let (back, declared) = (back(visit, pairs), action.declaration());
    let button = format!("{} {}", action.label(), plural(ids.len(), "render", "renders"));
    let more = if ids.len() > LISTED { ", …" } else { "" };
    let listed = texts.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>();
    let sheet = Sheet {
        question: format!("{button}?"),
        consequence: html! {
            @if !ids.is_empty() { p { "Renders " (listed.join(", ")) (more) } }
            p { (means(action)) " What is not possible for a render any more is refused, and said." }
        },
        form: SheetForm::Own {
            address: visit.state.path(declared.page.unwrap_or_default()),
            hidden: html! {
                (form::hidden_with_back(&visit.principal, &back))
                input type="hidden" name="id" value=(texts.join(","));
            },
        },
        fields: html! {
            @if action == Action::RendersPrioritize { (priority_fields()) }
            (reason_field(WHY, declared.reason, None))
        },
        back,
        leave: "Go back",
        button,
        ends: action == Action::RendersCancel,
        refusal: visit.refusal(Permission::Operate).or_else(|| {
            ids.is_empty().then(|| "No render matches for which this is possible now.".to_owned())
        }),
        command: (ids.len() <= LISTED).then(|| action.command_for(listed.join(" "))),
    };
    let title = format!("{} renders", action.label());
    let heading = html! { h1 { "Renders" } (tabs(visit, "")) };
    Ok(QuestionPage { section: Section::Render, title, heading, sheet }.render(visit, &common, &html! {}))
}

const fn means(action: Action) -> &'static str {
    match of_each(action) {
        Action::RenderCancel => {
            "Waiting renders are cancelled at once. Workers notice at their next heartbeat; a node that renders continues until it \
             is done, and the file is deleted."
        }
        Action::RenderRetry => {
            "All failure counts are reset. A render that only could not be published is not rendered again."
        }
        _ => "Their places in the queue change at once. Higher priorities are rendered first.",
    }
}

pub(crate) async fn order(action: Action, visit: &PageContext, pairs: &Pairs) -> PageResult {
    form::check(&visit.principal, field(pairs, "form_token"))?;
    let reason = match action.declaration().reason {
        Reason::Required => Some(checked(field(pairs, "reason"))?),
        _ => given(field(pairs, "reason")).map(checked).transpose()?,
    };
    let (selection, is_priority) = (named(pairs)?, action == Action::RendersPrioritize);
    let change = is_priority.then(|| priority_change(field(pairs, "how"), field(pairs, "priority")));
    let parameters = Parameters::Renders(selection, change.transpose()?);
    let what = format!("form: {action} {reason:?} {parameters:?}");
    let caller = visit.caller(field(pairs, "key"));
    let request = ActionRequest { action, caller: &caller, what, places: &[], reason, parameters };
    let (_, answer) = request.run().await?;
    outcome(action, visit, &back(visit, pairs), &serde_json::from_str(&answer).unwrap_or_default()).await
}

/// What was done, and what was refused with the reason.
async fn outcome(action: Action, visit: &PageContext, back: &str, answer: &Value) -> PageResult {
    let (common, _) = PageSnapshot::read(&visit.state).await?;
    let list = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let rows = list("refused").iter().map(|refused| {
        let text = |name: &str| refused[name].as_str().unwrap_or_default();
        let address = visit.state.path(&format!("/render/{}", refused["id"]));
        html! {
            tr {
                th scope="row" { a href=(address) { (refused["id"]) } }
                td.long { (text("detail")) }
                td.long { (text("remedy")) }
            }
        }
    });
    let title = format!("{} renders", action.label());
    let content = html! {
        h1 { (title) }
        (tabs(visit, ""))
        p.banner.ok role="status" { (action.label()) ": done for " (plural(list("changed").len(), "render", "renders")) "." }
        @if !list("not_tried").is_empty() {
            p.banner.bad role="alert" { "Not tried, because the database failed: " (plural(list("not_tried").len(), "render", "renders")) ". Go back and repeat the action for them." }
        }
        @if !list("refused").is_empty() {
            section.panel { (list_table("Refused renders", &["Refused", "Why", "What to do"], rows, &html! {})) }
        }
        p { a.button href=(back) { "Back to the list" } }
    };
    Ok(Frame::new(visit, &common, Section::Render).titled(&title).render(&content))
}
