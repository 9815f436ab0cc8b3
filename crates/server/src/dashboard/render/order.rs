//! What can be done with a render: a question first, with what becomes of it, and then the order itself. Both are the
//! same for pages and programs: the rules answer.

use super::page::tabs;
use super::row::{label, title};
use crate::access::Principal;
use crate::api::render::operate::{RenderRequest, Verb, operate};
use crate::api::render::{find, object};
use crate::api::{self, id};
use crate::dashboard::form::{self, Fields, OrderForm};
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::{PageContext, home};
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, refused};
use crate::dashboard::preferences::is_ours;
use crate::dashboard::region::Page;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::{Path, State as Given};
use axum::response::{Html, Redirect};
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_domain::access::Permission;
use tidemill_domain::audit::FIELD_CHARS_MAX;
use tidemill_domain::render::order::{self, OrderRefusal};
use tidemill_domain::render::{Render, RenderId};
use tidemill_domain::time::Timestamp;
use tidemill_store::render::RenderRecord;

#[derive(Debug, Deserialize)]
pub(crate) struct Back {
    #[serde(default)]
    back: String,
}

/// The address, if it is one of ours.
fn ours<'a>(state: &State, back: &'a str) -> Option<&'a str> {
    Some(back).filter(|back| is_ours(&home(state), back))
}

/// Asks whether a render is to be cancelled.
pub(crate) async fn ask_cancel(
    visit: PageContext,
    Path(text): Path<String>,
    api::QueryString(back): api::QueryString<Back>,
) -> Result<Html<String>, Problem> {
    ask(Verb::Cancel, &visit, &text, &back.back).await
}

/// Asks whether a render is to be tried again.
pub(crate) async fn ask_retry(
    visit: PageContext,
    Path(text): Path<String>,
    api::QueryString(back): api::QueryString<Back>,
) -> Result<Html<String>, Problem> {
    ask(Verb::Retry, &visit, &text, &back.back).await
}

/// Asks whether a render is to be taken from its worker.
pub(crate) async fn ask_recover(
    visit: PageContext,
    Path(text): Path<String>,
    api::QueryString(back): api::QueryString<Back>,
) -> Result<Html<String>, Problem> {
    ask(Verb::Recover, &visit, &text, &back.back).await
}

async fn ask(verb: Verb, visit: &PageContext, text: &str, back: &str) -> Result<Html<String>, Problem> {
    let id = RenderId::new(id(text)?);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let record = find(&mut tx, id).await?;
    let own = visit.state.path(&format!("/render/{id}"));
    let question = Question { verb, record: &record, back: ours(&visit.state, back).unwrap_or(&own) };
    let content = html! {
        h1 { "Render" }
        (tabs(visit, ""))
        section.panel { div.body { (question.sheet(visit, common.now)) } }
    };
    let title = format!("{} render {id}", label(verb).trim_end_matches('…'));
    let frame =
        Frame { visit, common: &common, section: Section::Render, title: Some(&title), page: Page::Other };
    Ok(frame.render(&content))
}

/// What becomes of the render, or why not.
fn means(verb: Verb, render: &Render, now: Timestamp) -> Result<&'static str, OrderRefusal> {
    match verb {
        Verb::Cancel => order::may_cancel(render).map(|()| order::cancel_means(render)),
        Verb::Retry => order::retry(render, now).map(|_| order::retry_means(render)),
        Verb::Recover => order::may_recover(render, now).map(|()| order::recover_means(render)),
    }
}

/// A question about a render.
struct Question<'a> {
    verb: Verb,
    record: &'a RenderRecord,
    back: &'a str,
}

impl Question<'_> {
    /// The script shows it in a dialog, above the page from which it was asked.
    fn sheet(&self, visit: &PageContext, now: Timestamp) -> Markup {
        let (id, word) = (self.record.id(), self.verb.as_str());
        let sentence = label(self.verb).trim_end_matches('…');
        let means = means(self.verb, &self.record.render, now);
        let object = object(self.record.composition.as_deref());
        let refusal = visit.refusal_of(Permission::Operate, &object).or_else(|| {
            means.err().map(|refusal| format!("Not now: {refusal}. Instead: {}.", refusal.fix()))
        });
        html! {
            div.sheet {
                h2 { (sentence) " render " (id) ", “" (title(self.record)) "”?" }
                @if let Ok(means) = means { p { (means) } }
                form method="post" action=(visit.state.path(&format!("/render/{id}/{word}"))) {
                    (form::hidden(&visit.principal))
                    input type="hidden" name="back" value=(self.back);
                    @if refusal.is_none() {
                        div.fields {
                            label.wide {
                                "Why (for the audit log)"
                                input name="reason" required maxlength=(FIELD_CHARS_MAX) autocomplete="off";
                            }
                        }
                    }
                    div.row {
                        a.button href=(self.back) data-close { "Leave it" }
                        @match &refusal {
                            Some(reason) => (refused(&format!("{sentence} render {id}"), reason)),
                            None if self.verb == Verb::Cancel => button.end { (sentence) " render " (id) },
                            None => button.do { (sentence) " render " (id) },
                        }
                    }
                }
                @if refusal.is_none() {
                    p.soft { "At the command line: " (command(&format!("tidemill render {word} {id} --reason WHY"))) }
                }
            }
        }
    }
}

pub(crate) async fn cancel(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    Fields(fields): Fields<OrderForm>,
) -> Result<Redirect, Problem> {
    give(Verb::Cancel, &state, &principal, &text, &fields).await
}

pub(crate) async fn retry(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    Fields(fields): Fields<OrderForm>,
) -> Result<Redirect, Problem> {
    give(Verb::Retry, &state, &principal, &text, &fields).await
}

/// Takes a render from its worker.
pub(crate) async fn recover(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    Fields(fields): Fields<OrderForm>,
) -> Result<Redirect, Problem> {
    give(Verb::Recover, &state, &principal, &text, &fields).await
}

async fn give(
    verb: Verb,
    state: &State,
    principal: &Principal,
    text: &str,
    fields: &OrderForm,
) -> Result<Redirect, Problem> {
    form::check(principal, &fields.form_token)?;
    let id = RenderId::new(id(text)?);
    let (headers, reason) = (form::key_header(&fields.key), fields.reason.as_str());
    let what = format!("form: {} render {id} {reason}", verb.as_str());
    operate(RenderRequest { state, principal, headers: &headers, what, verb, id, reason }).await?;
    Ok(Redirect::to(ours(state, &fields.back).unwrap_or(&state.path(&format!("/render/{id}")))))
}
