//! The page of one render: state, attempts, checks, file and status changes; and the question before an action on it.

use super::board::RenderSummary;
use super::order_form::OrderNotice;
use super::page::{off, tabs};
use super::row::{RowContext, bar, button, deadline, lease, remedied, size, state, title, took, waiting};
use super::selection::priority_fields;
use super::text::indented;
use super::{attempt, batch, clip, poster, report};
use crate::api::{Id, QueryString, Read, id as parse_id, render};
use crate::dashboard::part::{
    Health, attachment, command, count_up_to, list_table, or_soft, panel, plain_panel, refused, span,
    state as state_word, value_or,
};
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, reason_field};
use crate::dashboard::{
    Buttons, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Section, Times, form,
};
use crate::problem::Problem;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;
use tidemill_api::render::RenderDetail;
use tidemill_domain::access::Permission;
use tidemill_domain::action::Action;
use tidemill_domain::lease::Lease;
use tidemill_domain::outbox::Count;
use tidemill_domain::render::lifecycle::Counts;
use tidemill_domain::render::order::{self, OrderRefusal};
use tidemill_domain::render::{Render, RenderId, Status};
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::Material;
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
    ahead: Count,
}

impl RenderPage {
    pub(crate) async fn read(tx: &mut Tx, id: RenderId) -> Result<Option<Self>, StoreError> {
        let Some(record) = tx.renders().find(id).await? else { return Ok(None) };
        let ahead = match record.render.status {
            Status::Pending => count_up_to(AHEAD_MAX.into(), tx.renders().ahead(&record, AHEAD_MAX).await?),
            _ => Count::Exactly(0),
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

pub(crate) async fn page(
    visit: PageContext,
    Id(id): Id,
    QueryString(notice): QueryString<OrderNotice>,
) -> PageResult {
    let id = RenderId::new(id);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let summary = RenderSummary::read(&mut tx).await?;
    let one = RenderPage::read(&mut tx, id).await?.ok_or_else(|| render::unknown(id))?;
    let object = render::object(one.record.composition.as_deref());
    let refusal = visit.refusal_of(Permission::Operate, &object);
    let buttons = Buttons::unless(refusal.as_deref());
    let (times, back) = (visit.render_times(common.now), visit.state.path(&format!("/render/{id}")));
    let context = summary.context(&visit.state, &times, buttons, &back);
    let regions = regions(&context, &summary, &one);
    let warnings = warnings(&mut tx, &one.record).await;
    let content = html! {
        h1 { (title(&one.record)) " " span.soft { "#" (id) } }
        (tabs(&visit, ""))
        (notice.banner())
        p { (off(refusal.as_deref())) }
        @for region in &regions { (region.markup()) }
        (data_panel(&visit, &one.record, &warnings))
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
                    (remedied(reason.code))
                    (command(&format!("tidemill explain {}", reason.code)))
                }
            }
            @if render.awaits_approval() { p { (deadline(context, record, one.ahead)) } }
            @if !actions.is_empty() {
                div.acts { @for action in actions { (button(context, record, action)) } }
            }
            (facts(context, record))
        }
    };
    html! {
        @if render.status == Status::Pending { (summary.banner(context.state)) }
        (plain_panel("how", "State", &content))
    }
}

fn facts(context: &RowContext<'_>, record: &RenderRecord) -> Markup {
    let (times, render, counts) = (context.times, &record.render, record.render.counts);
    let zone = context.zone();
    html! {
        div.columns.apart {
            dl {
                dt { "Composition" } dd { (value_or(record.composition.as_ref(), "none")) }
                dt { "Cue item" } dd { (value_or(record.cue_item.as_ref(), "none")) }
                dt { "On air" } dd { (times.maybe(render.deadline, "unknown")) }
                dt { "Broadcast date" }
                dd { (value_or(record.broadcast_date, "set when a worker claims it")) " " span.soft { "(" (zone) ")" } }
                dt { "Priority" } dd { (record.priority) }
                @if let Some(batch_id) = record.batch {
                    dt { "Batch" } dd { a href=(batch::address(context.state, batch_id)) { (batch_id) } }
                }
                dt { "Attempts" } dd { (tried(counts)) }
            }
            dl {
                dt { "Worker" }
                dd {
                    (value_or(record.worker_name.as_ref(), "none"))
                    @if matches!(render.lease, Lease::Held { until: Some(_), .. }) {
                        span.soft { (lease(render, times, ", ")) }
                    }
                }
                dt { "nexrender job" }
                dd { (or_soft(record.remote_job.as_ref().map(|job| html! { code { (job) } }), "none")) }
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
    let (path, before) = (&record.output_path, &record.previous_output_path);
    let awaits = record.render.awaits_approval();
    if path.is_none() && before.is_none() && record.poster_path.is_none() && !awaits {
        return html! {};
    }
    let address = context.state.path(&format!("/render/{}/poster", record.id()));
    let content = html! {
        div.body {
            dl {
                @if let Some(path) = path { dt { "Path" } dd { (command(path)) } }
                @for object in record.objects() { dt { "Object" } dd { (command(object)) } }
                @if let Some(path) = before { dt { "Published before" } dd { (command(path)) } }
                @if let Some(bytes) = record.output_bytes { dt { "Size" } dd { (size(bytes)) " (" (bytes) " bytes)" } }
                @if let Some(hash) = &record.output_sha256 { dt { "SHA-256" } dd { (command(hash)) } }
                @if let (Some(path), None) = (&record.poster_path, picture) {
                    dt { "Picture" } dd { code { (path) } " " span.soft { "(not available on this server)" } }
                }
            }
            @if awaits {
                (clip::player(context.state, record))
            } @else if picture.is_some() {
                img.poster src=(address) alt={ "A frame of render " (record.id()) } loading="lazy";
            }
        }
    };
    let heading = match record.render.status {
        Status::Completed => "Published file",
        _ if awaits => "File for approval",
        _ => "File",
    };
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

/// What of the template stays empty. Data that cannot be used is reported by the worker.
async fn warnings(tx: &mut Tx, record: &RenderRecord) -> Vec<String> {
    let Ok(Some(data)) = tx.renders().data(record.id()).await else { return Vec::new() };
    let material = Material::read(tx, &data, record.composition.as_deref()).await;
    material.map(|material| material.warnings()).unwrap_or_default()
}

/// The data needs a permission of its own, and a click.
fn data_panel(visit: &PageContext, record: &RenderRecord, warnings: &[String]) -> Markup {
    let content = html! {
        div.body {
            p {
                "The names and numbers in the render (" code { "gfx_data" } "). "
                @match &record.key_id {
                    Some(key) => { "The database stores them encrypted with the key " code { (key) } "." }
                    None => "The database does not store them encrypted.",
                }
            }
            @for warning in warnings { p { (state_word(Health::Warn, "Warning")) " " (warning) } }
            div.row {
                @if visit.principal.may(Permission::Administer) {
                    a.button href=(visit.state.path(&format!("/render/{}/data", record.id()))) { "Show data" }
                } @else {
                    (refused("Show data", &format!("The role {} may not administer.", visit.principal.role)))
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
    let text = format!("{:#}\n", json!(document));
    Ok(attachment(&format!("tidemill-render-{id}.json"), "application/json", text))
}

pub(crate) async fn data(visit: PageContext, Id(id): Id) -> PageResult {
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

/// The consequence of an action, or why it is not possible.
fn means(action: Action, render: &Render, now: Timestamp) -> Result<&'static str, OrderRefusal> {
    match action {
        Action::RenderCancel => order::may_cancel(render).map(|()| order::cancel_means(render)),
        Action::RenderApprove => order::may_approve(render).map(|()| order::APPROVE_MEANS),
        Action::RenderReject => order::may_approve(render).map(|()| order::REJECT_MEANS),
        Action::RenderRetry => order::retry(render, now).map(|_| order::retry_means(render)),
        Action::RenderPrioritize => order::may_prioritize(render).map(|()| order::PRIORITIZE_MEANS),
        Action::RenderCorrect => order::correct(render, now).map(|_| order::correct_means(render)),
        _ => order::may_recover(render, now).map(|()| order::recover_means(render)),
    }
}

/// The data to correct, for those who may see it. Others have to write all of it.
fn data_field(record: &RenderRecord, data: Option<&str>) -> Markup {
    html! {
        input type="hidden" name="revision" value=(record.revision);
        label.wide {
            @match data {
                Some(_) => "Data (gfx_data)",
                None => "New data (gfx_data), if it changes; your role may not see the current data",
            }
            textarea name="data" rows="16" autocomplete="off" spellcheck="false" { (data.map(indented).unwrap_or_default()) }
        }
    }
}

pub(crate) async fn question(
    action: Action,
    visit: &PageContext,
    tx: &mut Tx,
    text: &str,
    back: Option<&str>,
    now: Timestamp,
) -> Result<QuestionPage, Problem> {
    let id = RenderId::new(parse_id(text)?);
    let record = render::find(tx, id).await?;
    let address = visit.state.path(&format!("/render/{id}"));
    let back = back.unwrap_or(&address).to_owned();
    let word = action.label();
    let means = means(action, &record.render, now);
    let object = render::object(record.composition.as_deref());
    let refusal = visit.refusal_of(Permission::Operate, &object).or_else(|| {
        means.err().map(|refusal| format!("Not possible: {refusal}. Instead: {}.", refusal.fix()))
    });
    let data = match (action, visit.refusal_of(Permission::Administer, &object)) {
        (Action::RenderCorrect, None) => tx.renders().data(id).await?,
        _ => None,
    };
    let hidden = form::hidden_with_back(&visit.principal, &back);
    let sheet = Sheet {
        question: format!("{word} render {id}, “{}”?", title(&record)),
        consequence: html! {
            @if let Ok(means) = means { p { (means) } }
            @if action == Action::RenderPrioritize { p { "Priority now: " (record.priority) } }
        },
        form: SheetForm::Own { address: format!("{address}/{}", action.verb()), hidden },
        fields: html! {
            @if action == Action::RenderCorrect { (data_field(&record, data.as_deref())) }
            @if action == Action::RenderPrioritize { (priority_fields()) }
            @if matches!(action, Action::RenderApprove | Action::RenderReject) {
                // What is seen here is what is approved or rejected.
                input type="hidden" name="revision" value=(record.revision);
            }
            @if action == Action::RenderApprove { (clip::player(&visit.state, &record)) }
            (reason_field(WHY, action.declaration().reason, None))
        },
        back,
        leave: "Go back",
        button: format!("{word} render {id}"),
        ends: matches!(action, Action::RenderCancel | Action::RenderReject),
        refusal,
        command: Some(action.command_for(id)),
    };
    let heading = html! { h1 { "Renders" } (tabs(visit, "")) };
    Ok(QuestionPage { section: Section::Render, title: format!("{word} render {id}"), heading, sheet })
}
