//! Changes of many events: the selected ones, or all that match. The operator has to type the right number of events.

use super::filter::FailedEventQuery;
use super::list::COUNT_MAX;
use super::one::verb;
use crate::api::outbox::failed_event::IDS_MAX;
use crate::dashboard::form::{Pairs, field};
use crate::dashboard::part::{list_table, plural};
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, reason_field};
use crate::dashboard::{Frame, PageContext, PageResult, PageSnapshot, Section, form};
use crate::operate::{ActionRequest, Parameters, checked};
use crate::problem::Problem;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::Value;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{Count, EventId};
use tidemill_store::outbox::failed_event::{FailedEventFilter, Selection};
use tidemill_store::{StoreError, Tx};

/// Events that one transaction changes.
const BATCH: u32 = 500;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Target {
    Selected(Vec<EventId>),
    Matching(Box<FailedEventQuery>),
}

impl Target {
    fn of(pairs: &Pairs) -> Result<Self, Problem> {
        if field(pairs, "all") == "1" {
            let query = FailedEventQuery::of_fields(pairs);
            if !query.is_narrow() {
                let remedy = "filter by topic, type, aggregate, error or slot";
                return Err(Problem::bad_request("no filter is set", remedy));
            }
            return Ok(Self::Matching(Box::new(query)));
        }
        let ids = pairs.iter().filter(|(name, _)| name == "id").map(|(_, id)| id.parse().ok());
        let mut ids: Vec<EventId> = ids.collect::<Option<_>>().unwrap_or_default();
        ids.sort_unstable();
        ids.dedup();
        if !(1..=IDS_MAX).contains(&ids.len()) {
            let remedy = format!("go back and select 1 to {IDS_MAX} events");
            return Err(Problem::bad_request("no event was selected, or too many", remedy));
        }
        Ok(Self::Selected(ids))
    }

    /// The filter, limited to states that allow the action.
    fn filter(query: &FailedEventQuery, action: Action) -> Result<FailedEventFilter, Problem> {
        let (filter, verb) = (query.filter()?, verb(action));
        let states: Vec<StateWord> =
            filter.states.iter().copied().filter(|state| verb.applies_to(*state)).collect();
        if states.is_empty() {
            let what = format!("{} is not possible for {} events", verb.as_str(), query.state_word());
            return Err(Problem::bad_request(what, "choose other events"));
        }
        Ok(FailedEventFilter { states, ..filter })
    }

    async fn count(&self, action: Action, tx: &mut Tx) -> Result<Count, Problem> {
        Ok(match self {
            Self::Selected(ids) => Count::Exactly(ids.len() as u64),
            Self::Matching(query) => {
                tx.outbox().count_failed_events(&Self::filter(query, action)?, COUNT_MAX).await?
            }
        })
    }

    fn hidden(&self) -> Markup {
        html! {
            @match self {
                Self::Selected(ids) => @for id in ids { input type="hidden" name="id" value=(id); },
                Self::Matching(query) => { input type="hidden" name="all" value="1"; (query.hidden()) }
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Selected(ids) => {
                let first = ids.iter().take(20).map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let more = if ids.len() > 20 { ", …" } else { "" };
                format!("Events {first}{more}")
            }
            Self::Matching(query) => format!("All with {}", query.text()),
        }
    }

    /// Arguments of the command line.
    fn arguments(&self) -> String {
        match self {
            Self::Selected(ids) => ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Self::Matching(query) => format!("--matching{}", query.flags()),
        }
    }

    fn list(&self, visit: &PageContext, more: &str) -> String {
        let query_string = match self {
            Self::Selected(_) => FailedEventQuery::default().query(more),
            Self::Matching(query) => query.query(more),
        };
        format!("{}{query_string}", visit.state.path("/outbox/failed"))
    }
}

pub(crate) async fn ask(action: Action, visit: &PageContext, pairs: &Pairs) -> PageResult {
    question(action, visit, &Target::of(pairs)?, &html! {}).await
}

async fn question(action: Action, visit: &PageContext, target: &Target, above: &Markup) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let count = target.count(action, &mut tx).await?;
    let title = format!("{} events", action.label());
    let (heading, sheet) = (html! { h1 { (title) } }, sheet(action, visit, target, count));
    Ok(QuestionPage { section: Section::Outbox, title, heading, sheet }.render(visit, &common, above))
}

fn sheet(action: Action, visit: &PageContext, target: &Target, count: Count) -> Sheet {
    let refusal = visit.refusal(Permission::Operate).or_else(|| match count {
        Count::Exactly(0) => Some("No matching event is left.".to_owned()),
        Count::Exactly(_) => None,
        Count::AtLeast(most) => Some(format!("More than {most} match. Narrow the filter.")),
    });
    let (number, is_skip) = (count.least(), action == Action::EventsSkip);
    let button = format!("{} {}", action.label(), plural(number, "event", "events"));
    Sheet {
        question: format!("{button}?"),
        consequence: html! {
            p { (target.text()) "." }
            p {
                @if is_skip {
                    "They will never be published. This cannot be undone. Later events of their aggregates continue without them."
                } @else {
                    "They are retried now, with new attempts. Order is kept for each aggregate: later events wait for earlier ones."
                }
            }
        },
        form: SheetForm::Own {
            address: visit.state.path(&format!("/outbox/failed/{}", action.verb())),
            hidden: html! { (form::hidden(&visit.principal)) (target.hidden()) },
        },
        fields: html! {
            label {
                "Type the number of events, " (number)
                input name="number" required inputmode="numeric" pattern="[0-9]+" autocomplete="off";
            }
            (reason_field(WHY, Reason::Required, None))
        },
        back: target.list(visit, ""),
        leave: "Leave them",
        button,
        ends: is_skip,
        refusal,
        command: Some(action.command_for(target.arguments())),
    }
}

pub(crate) async fn order(action: Action, visit: &PageContext, pairs: &Pairs) -> Result<Response, Problem> {
    form::check(&visit.principal, field(pairs, "form_token"))?;
    let target = Target::of(pairs)?;
    let mut tx = visit.state.read().await?;
    let count = target.count(action, &mut tx).await?;
    drop(tx);
    let typed = field(pairs, "number").trim();
    // A form that is sent twice finds no events the second time.
    let is_repeated = count == Count::Exactly(0) && !field(pairs, "key").is_empty();
    if !is_repeated && (!count.is_exact() || typed != count.least().to_string()) {
        let now = match count {
            Count::Exactly(1) => "there is 1 event".to_owned(),
            count => format!("there are {count} events"),
        };
        let above = html! {
            p.banner.bad role="alert" { "Nothing was done: you typed “" (typed) "”, and " (now) " now." }
        };
        let page = question(action, visit, &target, &above).await?;
        return Ok((StatusCode::CONFLICT, page).into_response());
    }
    let done = run_all(action, visit, pairs, &target).await?;
    if done.refused.is_empty() {
        let more = format!("done={}&count={}", action.verb(), done.changed);
        return Ok(Redirect::to(&target.list(visit, &more)).into_response());
    }
    Ok(refusals(action, visit, &target, &done).await?.into_response())
}

#[derive(Debug, Default)]
struct Changes {
    changed: usize,
    refused: Vec<(String, String)>,
}

/// Changes the events in batches.
async fn run_all(
    action: Action,
    visit: &PageContext,
    pairs: &Pairs,
    target: &Target,
) -> Result<Changes, Problem> {
    let (key, reason) = (field(pairs, "key"), checked(field(pairs, "reason"))?);
    let mut done = Changes::default();
    let mut selection = match target {
        Target::Selected(ids) => Selection::Selected(ids.clone()),
        Target::Matching(query) => {
            Selection::Matching { filter: Target::filter(query, action)?, after: EventId::ZERO }
        }
    };
    // Bounded by the count, so that new events cannot keep it busy forever.
    for turn in 0..=(COUNT_MAX / BATCH) {
        let caller = if key.is_empty() { visit.caller("") } else { visit.caller(&format!("{key}/{turn}")) };
        let request = ActionRequest {
            action,
            caller: &caller,
            what: format!("form: {action} {target:?} {turn} {reason}"),
            places: &[],
            reason: Some(reason),
            parameters: Parameters::Events { verb: None, selection: selection.clone(), limit: BATCH },
        };
        let (_, body) = request.run().await?;
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        done.changed += answer["changed"].as_array().map_or(0, Vec::len);
        for refused in answer["refused"].as_array().into_iter().flatten() {
            let detail = refused["detail"].as_str().unwrap_or_default().to_owned();
            done.refused.push((refused["id"].to_string(), detail));
        }
        let next = answer["next"].as_i64().map(EventId::new);
        match (&mut selection, next) {
            (Selection::Matching { after, .. }, Some(next)) => *after = next,
            _ => break,
        }
    }
    Ok(done)
}

async fn refusals(
    action: Action,
    visit: &PageContext,
    target: &Target,
    done: &Changes,
) -> Result<Html<String>, StoreError> {
    let (common, _) = PageSnapshot::read(&visit.state).await?;
    let rows = done.refused.iter().map(|(id, why)| {
        html! {
            tr {
                th scope="row" { a href=(visit.state.path(&format!("/outbox/failed/{id}"))) { (id) } }
                td.long { (why) }
            }
        }
    });
    let title = format!("{} events", action.label());
    let content = html! {
        h1 { (title) }
        p.banner role="status" {
            b { (plural(done.changed, "event", "events")) } " changed; " b { (done.refused.len()) } " refused."
        }
        section.panel { (list_table("Refused events", &["Event", "Reason"], rows, &html! { "None." })) }
        p { a href=(target.list(visit, "")) { "Back to the list" } }
    };
    Ok(Frame::new(visit, &common, Section::Outbox).titled(&title).render(&content))
}
