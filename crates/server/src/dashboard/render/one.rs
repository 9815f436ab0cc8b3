//! The page of one render: state, attempts, checks, file and status changes.

use super::board::RenderSummary;
use super::page::{off, tabs};
use super::row::{Ahead, RowContext, bar, button, lease_until, size, state, title, took, waiting};
use super::text::indented;
use super::{attempt, poster, report};
use crate::api::{Id, Read, render};
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::{Times, span};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, list_table, panel, plain_panel, refused, value_or};
use crate::dashboard::region::{Buttons, Page, Region};
use crate::problem::Problem;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde_json::json;
use tidemill_api::render::RenderDetail;
use tidemill_domain::access::Permission;
use tidemill_domain::render::lifecycle::Counts;
use tidemill_domain::render::order;
use tidemill_domain::render::{RenderId, Status};
use tidemill_store::render::{AttemptRecord, RenderRecord, TransitionRecord};
use tidemill_store::{StoreError, Tx};

/// Counting the renders ahead in the queue stops here.
const AHEAD_MAX: u32 = 1_000;

/// Status changes on the page; a render has a handful for each attempt.
const CHANGES_MAX: usize = 200;

const CHANGE_COLUMNS: &[&str] = &["Time", "Change", "Phase", "Attempt", "By", "Code"];

#[derive(Clone, Debug)]
pub(crate) struct RenderPage {
    record: RenderRecord,
    attempts: Vec<AttemptRecord>,
    changes: Vec<TransitionRecord>,
    ahead: Ahead,
}

impl RenderPage {
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

/// The live regions, in the order of the page.
pub(crate) fn regions(context: &RowContext<'_>, summary: &RenderSummary, one: &RenderPage) -> Vec<Region> {
    let page = Page::Render(one.record.id(), context.buttons);
    let parts = [
        ("head", head(context, summary, one)),
        ("file", file(context, &one.record)),
        ("attempts", attempt::panel_of(context, &one.record, &one.attempts, &one.changes)),
        ("report", report::panel_of(&one.attempts)),
        ("changes", changes(context.times, &one.changes)),
    ];
    let region = |(what, part)| Region::at(&page, what, |name| html! { div data-live=(name) { (part) } });
    parts.into_iter().map(region).collect()
}

pub(crate) async fn page(visit: PageContext, Id(id): Id) -> Result<Html<String>, Problem> {
    let id = RenderId::new(id);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let summary = RenderSummary::read(&mut tx).await?;
    let one = RenderPage::read(&mut tx, id).await?.ok_or_else(|| render::unknown(id))?;
    let object = render::object(one.record.composition.as_deref());
    let refusal = visit.refusal_of(Permission::Operate, &object);
    let buttons = Buttons::unless(refusal.as_deref());
    let (times, back) = (visit.times(common.now), visit.state.path(&format!("/render/{id}")));
    let context = summary.context(&visit.state, &times, buttons, &back);
    let regions = regions(&context, &summary, &one);
    let content = html! {
        h1 { (title(&one.record)) " " span.soft { "#" (id) } }
        (tabs(&visit, ""))
        p { (off(refusal.as_deref())) }
        @for region in &regions { (region.markup()) }
        (data_panel(&visit, &one.record))
        (elsewhere(&visit, id))
    };
    let name = one.name();
    let frame = Frame::new(&visit, &common, Section::Render).titled(&name).live(Page::Render(id, buttons));
    Ok(frame.render(&content))
}

fn head(context: &RowContext<'_>, summary: &RenderSummary, one: &RenderPage) -> Markup {
    let (record, render, now) = (&one.record, &one.record.render, context.times.now());
    let actions = order::possible(render, now);
    let content = html! {
        div.body {
            p.lead {
                (state(render, now)) " "
                @match render.status {
                    Status::Pending => (waiting(context, record, one.ahead)),
                    status if status.is_active() => { (bar(render)) " " (render.phase.label()) }
                    Status::Failed => { "while " (render.phase.label()) }
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
                div.acts { @for action in actions { (button(context, record, action)) } }
            }
            (facts(context.times, record))
        }
    };
    html! {
        @if render.status == Status::Pending { (summary.banner(context.state)) }
        (plain_panel("how", "State", &content))
    }
}

fn facts(times: &Times, record: &RenderRecord) -> Markup {
    let (render, counts) = (&record.render, record.render.counts);
    html! {
        div.columns.apart {
            dl {
                dt { "Composition" } dd { (value_or(record.composition.as_ref(), "none")) }
                dt { "Cue item" } dd { (value_or(record.cue_item.as_ref(), "none")) }
                dt { "On air" } dd { (times.maybe(render.deadline, "unknown")) }
                dt { "Broadcast date" } dd { (value_or(record.broadcast_date, "set when a worker claims it")) }
                dt { "Priority" } dd { (record.priority) }
                dt { "Attempts" } dd { (tried(counts)) }
            }
            dl {
                dt { "Worker" }
                dd {
                    (value_or(record.worker_name.as_ref(), "none"))
                    @if let Some(until) = lease_until(render) {
                        @if until > times.now() { span.soft { ", lease ends in " (times.length(until)) } }
                        @else { span.soft { ", lease ended " (times.at(until)) } }
                    }
                }
                dt { "nexrender job" }
                dd { @match &record.remote_job { Some(job) => code { (job) }, None => span.soft { "none" } } }
                dt { "Ordered" } dd { (times.at(record.created_at)) }
                dt { "Started" } dd { (times.maybe(record.started_at, "not yet")) }
                dt { "Ended" }
                dd {
                    (times.maybe(record.ended_at, "not yet"))
                    @if let Some(took) = took(record) { ", took " (span(took)) }
                }
                @if let Some(at) = render.cancel_requested_at { dt { "Cancellation requested" } dd { (times.at(at)) } }
            }
        }
    }
}

fn tried(counts: Counts) -> Markup {
    html! {
        (counts.attempts)
        @if counts.recoveries > 0 { ", " (counts.recoveries) " lost with their worker" }
        @if [counts.submit, counts.render, counts.upload] != [0; 3] {
            span.soft {
                " (failures: submit " (counts.submit) ", render " (counts.render) ", publish " (counts.upload) ")"
            }
        }
    }
}

fn file(context: &RowContext<'_>, record: &RenderRecord) -> Markup {
    let picture = record.poster_path.as_ref().filter(|_| poster::place(context.state, record).is_some());
    if record.output_path.is_none() && record.poster_path.is_none() {
        return html! {};
    }
    let address = context.state.path(&format!("/render/{}/poster", record.id()));
    let content = html! {
        div.body {
            dl {
                @if let Some(path) = &record.output_path { dt { "Path" } dd { (command(path)) } }
                @if let Some(bytes) = record.output_bytes { dt { "Size" } dd { (size(bytes)) " (" (bytes) " bytes)" } }
                @if let Some(hash) = &record.output_sha256 { dt { "SHA-256" } dd { (command(hash)) } }
                @if let (Some(path), None) = (&record.poster_path, picture) {
                    dt { "Picture" } dd { code { (path) } " " span.soft { "(not available on this server)" } }
                }
            }
            @if picture.is_some() {
                img.poster src=(address) alt={ "A frame of render " (record.id()) } loading="lazy";
            }
        }
    };
    let heading = if record.render.status == Status::Completed { "Published file" } else { "File" };
    plain_panel("file", heading, &content)
}

fn changes(times: &Times, changes: &[TransitionRecord]) -> Markup {
    let shown = changes.len().saturating_sub(CHANGES_MAX);
    let rows = changes.iter().skip(shown).map(|change| {
        html! {
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
    });
    let aside =
        html! { @if shown > 0 { span.soft { "The last " (CHANGES_MAX) " of " (changes.len()) "." } } };
    let table = list_table("Status changes", CHANGE_COLUMNS, rows, &html! { "No status changes." });
    panel("changes", "Status changes", &aside, &table)
}

/// The data needs a permission of its own, and a click.
fn data_panel(visit: &PageContext, record: &RenderRecord) -> Markup {
    let content = html! {
        div.body {
            p {
                "The names and numbers in the render (" code { "gfx_data" } "). "
                @match &record.key_id {
                    Some(key) => { "The database stores them encrypted with the key " code { (key) } "." }
                    None => "The database does not store them encrypted.",
                }
            }
            div.row {
                @match visit.principal.may(Permission::Administer) {
                    true => a.button href=(visit.state.path(&format!("/render/{}/data", record.id()))) { "Show data" },
                    false => (refused("Show data", &format!("The role {} may not administer.", visit.principal.role))),
                }
            }
        }
    };
    plain_panel("data", "Data", &content)
}

fn elsewhere(visit: &PageContext, id: RenderId) -> Markup {
    let audit = visit.state.path(&format!("/settings/audit?object=render%2F{id}"));
    let content = html! {
        div.body {
            p { "At the command line: " (command(&format!("tidemill render show {id}"))) }
            div.row {
                a.button href=(visit.state.path(&format!("/render/{id}/json"))) { "Download JSON" }
                a href=(audit) { "Audit log" }
            }
        }
    };
    plain_panel("elsewhere", "More", &content)
}

/// The render as a JSON file, without its data.
pub(crate) async fn download(Id(id): Id, Read(mut tx): Read) -> Result<Response, Problem> {
    let id = RenderId::new(id);
    let record = render::find(&mut tx, id).await?;
    let attempts = tx.renders().attempts(id).await?;
    let document = RenderDetail::new(&record, &attempts, &tx.renders().transitions(id).await?);
    let name = format!("attachment; filename=\"tidemill-render-{id}.json\"");
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, format!("{:#}\n", json!(document))).into_response())
}

pub(crate) async fn data(visit: PageContext, Id(id): Id) -> Result<Html<String>, Problem> {
    let id = RenderId::new(id);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let record = render::find(&mut tx, id).await?;
    let data = tx.renders().data(id).await?.ok_or_else(|| render::unknown(id))?;
    let back = visit.state.path(&format!("/render/{id}"));
    let content = html! {
        h1 { (title(&record)) " " span.soft { "#" (id) } }
        (panel("data", "Data", &html! { a href=(back) { "Back to the render" } }, &html! {
            div.body { pre tabindex="0" role="region" aria-label="Data of the render" { (indented(&data)) } }
        }))
    };
    let name = format!("Data of render {id}");
    Ok(Frame::new(&visit, &common, Section::Render).titled(&name).render(&content))
}
