//! One render: how it stands, what was tried, what the checks found, where its file is, and all that has happened to it.

use super::board::Whole;
use super::page::{off, tabs};
use super::row::{Ahead, Look, actions_now, bar, button, lease_until, size, state, title, took, waiting};
use super::text::indented;
use super::{attempt, poster, report};
use crate::api::render::find;
use crate::api::{self, render};
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::{Times, span};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, empty_row, panel, refused, table};
use crate::dashboard::region::{Audience, Buttons, Page, Region};
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde_json::json;
use tidemill_api::render::RenderDetail;
use tidemill_domain::access::Permission;
use tidemill_domain::render::lifecycle::Counts;
use tidemill_domain::render::{RenderId, Status};
use tidemill_store::render::{AttemptRecord, RenderRecord, TransitionRecord};
use tidemill_store::{StoreError, Tx};

/// So far it is counted how many renders are before one.
const AHEAD_MAX: u32 = 1_000;

/// Changes of status that a page shows; a render has a handful for each attempt.
const CHANGES_MAX: usize = 200;

const CHANGE_COLUMNS: &[&str] = &["When", "Change", "Phase", "Attempt", "By", "Code"];

/// A render with all that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct One {
    record: RenderRecord,
    attempts: Vec<AttemptRecord>,
    changes: Vec<TransitionRecord>,
    ahead: Ahead,
}

impl One {
    /// Looks; none when there is no such render.
    pub(crate) async fn read(tx: &mut Tx, id: RenderId) -> Result<Option<Self>, StoreError> {
        let Some(record) = tx.renders().find(id).await? else { return Ok(None) };
        let ahead = match record.render.status {
            Status::Pending => match tx.renders().ahead(&record, AHEAD_MAX).await? {
                ahead if ahead < u64::from(AHEAD_MAX) => Ahead::Exactly(ahead),
                ahead => Ahead::MoreThan(ahead),
            },
            _ => Ahead::Exactly(0),
        };
        let attempts = tx.renders().attempts(id).await?;
        Ok(Some(Self { record, attempts, changes: tx.renders().transitions(id).await?, ahead }))
    }

    fn name(&self) -> String {
        format!("{} {} #{}", self.record.render.status, title(&self.record), self.record.id())
    }
}

/// The parts that change by themselves. The page is put together from the very same.
#[derive(Debug)]
pub(crate) struct Regions {
    head: Region,
    file: Region,
    attempts: Region,
    report: Region,
    changes: Region,
}

impl Regions {
    pub(crate) fn new(look: &Look<'_>, whole: &Whole, one: &One) -> Self {
        let page = Page::Render(one.record.id(), look.buttons);
        let region = |what: &str, markup: Markup| {
            let name = format!("{what}@{}", page.word());
            let inside = html! { div data-live=(name) { (markup) } };
            Region::whole(&name, Audience::At(page.clone()), inside)
        };
        Self {
            head: region("head", head(look, whole, one)),
            file: region("file", file(look, &one.record)),
            attempts: region("attempts", attempt::panel_of(look, &one.record, &one.attempts, &one.changes)),
            report: region("report", report::panel_of(&one.attempts)),
            changes: region("changes", changes(look.times, &one.changes)),
        }
    }

    /// As a list, for those who compare and send.
    pub(crate) fn into_vec(self) -> Vec<Region> {
        vec![self.head, self.file, self.attempts, self.report, self.changes]
    }
}

pub(crate) async fn page(visit: PageContext, Path(text): Path<String>) -> Result<Html<String>, Problem> {
    let id = RenderId::new(api::id(&text)?);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let whole = Whole::read(&mut tx).await?;
    let one = One::read(&mut tx, id).await?.ok_or_else(|| render::unknown(id))?;
    let object = render::object(one.record.composition.as_deref());
    let refusal = visit.refusal_of(Permission::Operate, &object);
    let buttons = Buttons::unless(refusal.as_deref());
    let (times, back) = (visit.times(common.now), visit.state.path(&format!("/render/{id}")));
    let look = whole.look(&visit.state, &times, buttons, &back);
    let regions = Regions::new(&look, &whole, &one);
    let content = html! {
        h1 { (title(&one.record)) " " span.soft { "#" (id) } }
        (tabs(&visit, ""))
        p { (off(refusal.as_deref())) }
        (regions.head.markup())
        (regions.file.markup())
        (regions.attempts.markup())
        (regions.report.markup())
        (regions.changes.markup())
        (data_panel(&visit, &one.record))
        (elsewhere(&visit, id))
    };
    let name = one.name();
    let live = Page::Render(id, buttons);
    let frame =
        Frame { visit: &visit, common: &common, section: Section::Render, title: Some(&name), page: live };
    Ok(frame.render(&content))
}

fn head(look: &Look<'_>, whole: &Whole, one: &One) -> Markup {
    let (record, render, now) = (&one.record, &one.record.render, look.times.now());
    let actions = actions_now(render, now);
    let content = html! {
        div.body {
            p.lead {
                (state(render, now)) " "
                @match render.status {
                    Status::Pending => (waiting(look, record, one.ahead)),
                    status if status.is_active() => { (bar(render)) " " (render.phase.label()) }
                    Status::Failed => { "when it was " (render.phase.label()) }
                    _ => {}
                }
            }
            @if let (Some(reason), Status::Failed) = (&render.reason, render.status) {
                div.banner.bad {
                    p { code { (reason.code) } }
                    pre { (reason.message) }
                    (command(&format!("tidemill explain {}", reason.code)))
                }
            }
            @if !actions.is_empty() {
                div.acts { @for action in actions { (button(look, record, action)) } }
            }
            (facts(look.times, record))
        }
    };
    html! {
        @if render.status == Status::Pending { (whole.banner(look.state)) }
        (panel("how", "How it stands", &html! {}, &content))
    }
}

fn facts(times: &Times, record: &RenderRecord) -> Markup {
    let (render, counts) = (&record.render, record.render.counts);
    let or_none =
        |text: &Option<String>| html! { @match text { Some(text) => (text), None => span.soft { "none" } } };
    html! {
        div.columns.apart {
            dl {
                dt { "Composition" } dd { (or_none(&record.composition)) }
                dt { "Ordered for" } dd { (or_none(&record.cue_item)) }
                dt { "On air" } dd { (times.maybe(render.deadline, "nobody has said")) }
                dt { "Day of the broadcast" }
                dd {
                    @match record.broadcast_date {
                        Some(date) => (date.to_string()),
                        None => span.soft { "decided when it is claimed" },
                    }
                }
                dt { "Priority" } dd { (record.priority) }
                dt { "Attempts" } dd { (tried(counts)) }
            }
            dl {
                dt { "Worker" }
                dd {
                    (or_none(&record.worker_name))
                    @if let Some(until) = lease_until(render) {
                        @if until > times.now() { span.soft { ", its lease lasts another " (times.length(until)) } }
                        @else { span.soft { ", its lease ended " (times.at(until)) } }
                    }
                }
                dt { "Job at the farm" }
                dd { @match &record.remote_job { Some(job) => code { (job) }, None => span.soft { "none" } } }
                dt { "Ordered" } dd { (times.at(record.created_at)) }
                dt { "Begun" } dd { (times.maybe(record.started_at, "not yet")) }
                dt { "Ended" }
                dd {
                    (times.maybe(record.ended_at, "not yet"))
                    @if let Some(took) = took(record) { ", took " (span(took)) }
                }
                @if let Some(at) = render.cancel_requested_at { dt { "To be cancelled since" } dd { (times.at(at)) } }
            }
        }
    }
}

fn tried(counts: Counts) -> Markup {
    html! {
        (counts.attempts)
        @if counts.recoveries > 0 { ", lost " (counts.recoveries) " times with its worker" }
        @if [counts.submit, counts.render, counts.upload] != [0; 3] {
            span.soft {
                " (failed to submit " (counts.submit) ", to render " (counts.render) ", to publish " (counts.upload) ")"
            }
        }
    }
}

fn file(look: &Look<'_>, record: &RenderRecord) -> Markup {
    let picture = record.poster_path.as_ref().filter(|_| poster::place(look.state, record).is_some());
    if record.output_path.is_none() && record.poster_path.is_none() {
        return html! {};
    }
    let address = look.state.path(&format!("/render/{}/poster", record.id()));
    let content = html! {
        div.body {
            dl {
                @if let Some(path) = &record.output_path { dt { "Path" } dd { (command(path)) } }
                @if let Some(bytes) = record.output_bytes { dt { "Size" } dd { (size(bytes)) " (" (bytes) " bytes)" } }
                @if let Some(hash) = &record.output_sha256 { dt { "SHA-256" } dd { (command(hash)) } }
                @if let (Some(path), None) = (&record.poster_path, picture) {
                    dt { "Picture" } dd { code { (path) } " " span.soft { "(this server has no such folder)" } }
                }
            }
            @if picture.is_some() {
                img.poster src=(address) alt={ "A frame of render " (record.id()) } loading="lazy";
            }
        }
    };
    let heading = if record.render.status == Status::Completed { "Published file" } else { "File" };
    panel("file", heading, &html! {}, &content)
}

fn changes(times: &Times, changes: &[TransitionRecord]) -> Markup {
    let shown = changes.len().saturating_sub(CHANGES_MAX);
    let rows = html! {
        tbody {
            @if changes.is_empty() { (empty_row(CHANGE_COLUMNS.len(), &html! { "Nobody has noted anything." })) }
            @for change in changes.iter().skip(shown) {
                tr {
                    td { (times.at(change.at)) }
                    th scope="row" {
                        @if let Some(from) = change.from { (from) " → " } @else { "→ " }
                        (change.to)
                    }
                    td { @if let Some(phase) = change.phase { (phase.label()) } }
                    td { @if change.epoch.get() > 0 { (change.epoch) } }
                    td.long { (change.by) }
                    td.still { @if let Some(code) = change.code { code { (code) } } }
                }
            }
        }
    };
    let aside =
        html! { @if shown > 0 { span.soft { "The last " (CHANGES_MAX) " of " (changes.len()) "." } } };
    panel("changes", "What has happened to it", &aside, &table("Changes of status", CHANGE_COLUMNS, &rows))
}

/// What it shows is for those who may see payloads, and only when they ask.
fn data_panel(visit: &PageContext, record: &RenderRecord) -> Markup {
    let content = html! {
        div.body {
            p {
                "The names and numbers in the film (" code { "gfx_data" } "). "
                @match &record.key_id {
                    Some(key) => { "They are encrypted in the database, with the key " code { (key) } "." }
                    None => "They are not encrypted in the database.",
                }
            }
            div.row {
                @match visit.principal.may(Permission::Administer) {
                    true => a.button href=(visit.state.path(&format!("/render/{}/data", record.id()))) { "Show what it shows" },
                    false => (refused("Show what it shows", &format!("The role {} may not administer.", visit.principal.role))),
                }
            }
        }
    };
    panel("data", "What it shows", &html! {}, &content)
}

fn elsewhere(visit: &PageContext, id: RenderId) -> Markup {
    let audit = visit.state.path(&format!("/settings/audit?object=render%2F{id}"));
    let content = html! {
        div.body {
            p { "At the command line: " (command(&format!("tidemill render show {id}"))) }
            div.row {
                a.button href=(visit.state.path(&format!("/render/{id}/json"))) { "Download JSON" }
                a href=(audit) { "What people did with it (audit log)" }
            }
        }
    };
    panel("elsewhere", "Elsewhere", &html! {}, &content)
}

/// All of it but what it shows, as a file.
pub(crate) async fn download(visit: PageContext, Path(text): Path<String>) -> Result<Response, Problem> {
    let id = RenderId::new(api::id(&text)?);
    let mut tx = visit.state.read().await?;
    let record = find(&mut tx, id).await?;
    let attempts = tx.renders().attempts(id).await?;
    let document = RenderDetail::new(&record, &attempts, &tx.renders().transitions(id).await?);
    let name = format!("attachment; filename=\"tidemill-render-{id}.json\"");
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, format!("{:#}\n", json!(document))).into_response())
}

/// What it shows, as text.
pub(crate) async fn data(visit: PageContext, Path(text): Path<String>) -> Result<Html<String>, Problem> {
    let id = RenderId::new(api::id(&text)?);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let record = find(&mut tx, id).await?;
    let data = tx.renders().data(id).await?.ok_or_else(|| render::unknown(id))?;
    let back = visit.state.path(&format!("/render/{id}"));
    let content = html! {
        h1 { (title(&record)) " " span.soft { "#" (id) } }
        (panel("data", "What it shows", &html! { a href=(back) { "Back to the render" } }, &html! {
            div.body { pre tabindex="0" role="region" aria-label="What the render shows" { (indented(&data)) } }
        }))
    };
    let name = format!("What render {id} shows");
    let frame = Frame {
        visit: &visit,
        common: &common,
        section: Section::Render,
        title: Some(&name),
        page: Page::Other,
    };
    Ok(frame.render(&content))
}
