//! Many events at once: those that were picked, or all that match. The number has to be typed, and it has to be right.

use super::filter::FailedEventQuery;
use super::list::COUNT_MAX;
use super::one::verb;
use crate::api::outbox::failed_event::bulk::IDS_MAX;
use crate::dashboard::form;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::table;
use crate::dashboard::region::Page;
use crate::dashboard::sheet::{Sheet, SheetForm, WHY, Weight, reason_field};
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

/// So many events are changed in one transaction.
const BATCH: u32 = 500;

/// The fields of an address or a form, of which some come several times.
pub(crate) type Pairs = Vec<(String, String)>;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Meant {
    Picked(Vec<EventId>),
    Matching(Box<FailedEventQuery>),
}

fn field<'a>(pairs: &'a Pairs, name: &str) -> &'a str {
    pairs.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.as_str())
}

impl Meant {
    fn of(pairs: &Pairs) -> Result<Self, Problem> {
        if field(pairs, "all") == "1" {
            let wanted = FailedEventQuery::of_fields(pairs);
            return match wanted.is_narrow() {
                true => Ok(Self::Matching(Box::new(wanted))),
                false => Err(Problem::bad_request(
                    "nothing limits the events",
                    "say which: topic, type, aggregate, error or slot",
                )),
            };
        }
        let ids = pairs.iter().filter(|(name, _)| name == "id").map(|(_, id)| id.parse().ok());
        let mut ids: Vec<EventId> = ids.collect::<Option<_>>().unwrap_or_default();
        ids.sort_unstable();
        ids.dedup();
        match (1..=IDS_MAX).contains(&ids.len()) {
            true => Ok(Self::Picked(ids)),
            false => Err(Problem::bad_request(
                "no event was selected, or too many",
                format!("go back and select 1 to {IDS_MAX} events"),
            )),
        }
    }

    /// Those of the filter to which the order can be given.
    fn filter(wanted: &FailedEventQuery, action: Action) -> Result<FailedEventFilter, Problem> {
        let (filter, verb) = (wanted.filter()?, verb(action));
        let states: Vec<StateWord> =
            filter.states.iter().copied().filter(|state| verb.applies_to(*state)).collect();
        match states.is_empty() {
            false => Ok(FailedEventFilter { states, ..filter }),
            true => Err(Problem::bad_request(
                format!("events that are {} cannot be told to {}", wanted.state_word(), verb.as_str()),
                "choose others",
            )),
        }
    }

    async fn count(&self, action: Action, tx: &mut Tx) -> Result<Count, Problem> {
        Ok(match self {
            Self::Picked(ids) => Count::Exactly(ids.len() as u64),
            Self::Matching(wanted) => {
                tx.outbox().count_failed_events(&Self::filter(wanted, action)?, COUNT_MAX).await?
            }
        })
    }

    fn hidden(&self) -> Markup {
        html! {
            @match self {
                Self::Picked(ids) => @for id in ids { input type="hidden" name="id" value=(id); },
                Self::Matching(wanted) => { input type="hidden" name="all" value="1"; (wanted.hidden()) }
            }
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Picked(ids) => {
                let first = ids.iter().take(20).map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let more = if ids.len() > 20 { ", …" } else { "" };
                format!("Events {first}{more}")
            }
            Self::Matching(wanted) => format!("All with {}", wanted.told()),
        }
    }

    /// Them, at the command line.
    fn arguments(&self) -> String {
        match self {
            Self::Picked(ids) => ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Self::Matching(wanted) => format!("--matching{}", wanted.flags()),
        }
    }

    /// Where the list of them is.
    fn list(&self, visit: &PageContext, more: &str) -> String {
        let query = match self {
            Self::Picked(_) => FailedEventQuery::default().query(more),
            Self::Matching(wanted) => wanted.query(more),
        };
        format!("{}{query}", visit.state.path("/outbox/failed"))
    }
}

/// Asks whether events are to be tried again, or never to be published.
pub(crate) async fn ask(action: Action, visit: &PageContext, pairs: &Pairs) -> Result<Html<String>, Problem> {
    question(action, visit, &Meant::of(pairs)?, &html! {}).await
}

async fn question(
    action: Action,
    visit: &PageContext,
    meant: &Meant,
    above: &Markup,
) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let count = meant.count(action, &mut tx).await?;
    let title = format!("{} events", action.label());
    let content = html! {
        h1 { (title) }
        (above)
        section.panel { div.body { (sheet(action, visit, meant, count).markup()) } }
    };
    let frame =
        Frame { visit, common: &common, section: Section::Outbox, title: Some(&title), page: Page::Other };
    Ok(frame.render(&content))
}

fn sheet(action: Action, visit: &PageContext, meant: &Meant, count: Count) -> Sheet {
    let refusal = visit.refusal(Permission::Operate).or_else(|| match count {
        Count::Exactly(0) => Some("None is left to which this can be done.".to_owned()),
        Count::Exactly(_) => None,
        Count::AtLeast(most) => Some(format!("More than {most} match. Say more precisely which.")),
    });
    let (number, is_skip) = (count.least(), action == Action::EventsSkip);
    let button = format!("{} {number} events", action.label());
    Sheet {
        question: format!("{button}?"),
        consequence: html! {
            p { (meant.told()) "." }
            p {
                @if is_skip {
                    "They are never published, and that cannot be taken back. Later events of their aggregates go on without them."
                } @else {
                    "They are tried at once, as if they had never been refused. Within each aggregate the order is kept: a later event waits for the earlier one."
                }
            }
        },
        form: SheetForm::Own {
            address: visit.state.path(&format!("/outbox/failed/{}", action.verb())),
            hidden: html! { (form::hidden(&visit.principal)) (meant.hidden()) },
        },
        fields: html! {
            label {
                "Type the number of events, " (number)
                input name="number" required inputmode="numeric" pattern="[0-9]+" autocomplete="off";
            }
            (reason_field(WHY, Reason::Required, None))
        },
        back: meant.list(visit, ""),
        leave: "Leave them",
        button,
        weight: if is_skip { Weight::Ends } else { Weight::Normal },
        refusal,
        command: Some(action.command_for(meant.arguments())),
    }
}

pub(crate) async fn order(action: Action, visit: &PageContext, pairs: &Pairs) -> Result<Response, Problem> {
    form::check(&visit.principal, field(pairs, "form_token"))?;
    let meant = Meant::of(pairs)?;
    let mut tx = visit.state.read().await?;
    let count = meant.count(action, &mut tx).await?;
    drop(tx);
    let typed = field(pairs, "number").trim();
    // Who sends the same form twice has the number of before.
    let is_again = count == Count::Exactly(0) && !field(pairs, "key").is_empty();
    if !is_again && (!count.is_exact() || typed != count.least().to_string()) {
        let above = html! {
            p.banner.bad role="alert" { "Nothing was done: you typed “" (typed) "”, and there are " (count) " events now." }
        };
        let page = question(action, visit, &meant, &above).await?;
        return Ok((StatusCode::CONFLICT, page).into_response());
    }
    let done = run_all(action, visit, pairs, &meant).await?;
    if done.refused.is_empty() {
        let more = format!("done={}&count={}", action.verb(), done.changed);
        return Ok(Redirect::to(&meant.list(visit, &more)).into_response());
    }
    Ok(told(action, visit, &meant, &done).await?.into_response())
}

/// What became of an order.
#[derive(Debug, Default)]
struct Done {
    changed: usize,
    refused: Vec<(String, String)>,
}

/// Does it, to as many at a time as one transaction takes.
async fn run_all(action: Action, visit: &PageContext, pairs: &Pairs, meant: &Meant) -> Result<Done, Problem> {
    let (key, reason) = (field(pairs, "key"), checked(field(pairs, "reason"))?);
    let mut done = Done::default();
    let mut selection = match meant {
        Meant::Picked(ids) => Selection::Selected(ids.clone()),
        Meant::Matching(wanted) => {
            Selection::Matching { filter: Meant::filter(wanted, action)?, after: EventId::ZERO }
        }
    };
    // As many as were counted, and no event that came since for ever.
    for turn in 0..=(COUNT_MAX / BATCH) {
        let caller = if key.is_empty() { visit.caller("") } else { visit.caller(&format!("{key}/{turn}")) };
        let request = ActionRequest {
            action,
            caller: &caller,
            what: format!("form: {action} {meant:?} {turn} {reason}"),
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

/// Says to which events it was not done, and why.
async fn told(
    action: Action,
    visit: &PageContext,
    meant: &Meant,
    done: &Done,
) -> Result<Html<String>, StoreError> {
    let (common, _) = PageSnapshot::read(&visit.state).await?;
    let rows = html! {
        tbody {
            @for (id, why) in &done.refused {
                tr {
                    th scope="row" { a href=(visit.state.path(&format!("/outbox/failed/{id}"))) { (id) } }
                    td.long { (why) }
                }
            }
        }
    };
    let title = format!("{} events", action.label());
    let content = html! {
        h1 { (title) }
        p.banner role="status" { "Done to " b { (done.changed) } " events; " b { (done.refused.len()) } " were refused." }
        section.panel { (table("Events that were refused", &["Event", "Why"], &rows)) }
        p { a href=(meant.list(visit, "")) { "Back to the list" } }
    };
    let frame =
        Frame { visit, common: &common, section: Section::Outbox, title: Some(&title), page: Page::Other };
    Ok(frame.render(&content))
}
