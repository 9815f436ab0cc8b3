//! The page of a batch of renders: how far it is, its failed renders, and the question before they are retried.

use super::board::{PAGE_ROWS, RenderSummary, health};
use super::page::{off, tabs};
use super::row::{COLUMNS, RowContext, row};
use super::selection;
use crate::api::render::batch::find;
use crate::api::render::unknown_batch;
use crate::api::{Id, id as parse_id};
use crate::dashboard::part::{command, panel, plain_panel, plural, state as state_word, table};
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, ask_button, reason_field};
use crate::dashboard::{Buttons, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Section, form};
use crate::problem::Problem;
use crate::state::State;
use maud::{Markup, html};
use std::collections::BTreeMap;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::outbox::Count;
use tidemill_domain::render::selection::takes;
use tidemill_domain::render::{RenderId, Status};
use tidemill_store::render::{BatchRecord, RenderRecord};
use tidemill_store::{StoreError, Tx};

#[derive(Clone, Debug)]
pub(crate) struct BatchPage {
    batch: BatchRecord,
    failed: Vec<RenderRecord>,
    previews: BTreeMap<RenderId, String>,
}

impl BatchPage {
    pub(crate) async fn read(tx: &mut Tx, id: RenderId) -> Result<Option<Self>, StoreError> {
        let Some(batch) = tx.renders().batch(id).await? else { return Ok(None) };
        let failed = tx.renders().failed_in_batch(id).await?;
        let shown: Vec<_> = failed.iter().take(PAGE_ROWS as usize).collect();
        let previews = tx.renders().previews(&shown).await?;
        Ok(Some(Self { batch, failed, previews }))
    }
}

pub(crate) fn address(state: &State, id: RenderId) -> String {
    state.path(&format!("/render/batches/{id}"))
}

/// The live regions, in the order of the page.
pub(crate) fn regions(context: &RowContext<'_>, one: &BatchPage) -> [Region; 2] {
    let page = Page::RenderBatch(one.batch.id, context.buttons);
    let head =
        Region::at(&page, "head", |name| html! { div data-live=(name) { (head(context, &one.batch)) } });
    let shown = one.failed.iter().take(PAGE_ROWS as usize);
    let preview = |record: &RenderRecord| one.previews.get(&record.id()).map_or("", String::as_str);
    let rows = shown.map(|record| row(context, record, preview(record), Count::Exactly(0)));
    let more = one.failed.len() > PAGE_ROWS as usize;
    let note = more.then(|| html! { "The first " (PAGE_ROWS) " of " (one.failed.len()) "." });
    [head, Region::rows_at(&page, "failed", COLUMNS, rows, &html! { "No failed renders." }, note)]
}

fn head(context: &RowContext<'_>, batch: &BatchRecord) -> Markup {
    let (id, times) = (batch.id, context.times);
    let (all, ended) = (batch.count(|_| true), batch.count(Status::is_terminal));
    let renders = |status: &str| context.state.path(&format!("/render?{status}batch={id}"));
    let content = html! {
        div.body {
            p.lead {
                progress max=(all) value=(ended) aria-label={ "Progress of batch " (id) } { (ended) " of " (all) }
                " " (ended) " of " (plural(all, "render", "renders")) " ended"
            }
            nav.chips aria-label="Statuses of the batch" {
                a href=(renders("")) { "All " b { (all) } }
                @for (status, count) in &batch.by_status {
                    a href=(renders(&format!("status={status}&"))) {
                        (state_word(health(*status, Count::Exactly(*count)), status.as_str())) " " b { (count) }
                    }
                }
            }
            @if batch.by_status.contains_key(&Status::Failed) {
                @let question = format!("{}/retry", address(context.state, id));
                div.acts { (ask_button(context.buttons, &question, "Retry failed…", &format!("Retry the failed renders of batch {id}"))) }
            }
            dl {
                dt { "Ordered" } dd { (times.at(batch.created_at)) }
                dt { "Ended" } dd { (times.maybe(batch.ended_at, "not yet")) }
            }
        }
    };
    plain_panel("how", "Progress", &content)
}

pub(crate) async fn page(visit: PageContext, Id(id): Id) -> PageResult {
    let id = RenderId::new(id);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let summary = RenderSummary::read(&mut tx).await?;
    let one = BatchPage::read(&mut tx, id).await?.ok_or_else(|| unknown_batch(id))?;
    let refusal = visit.refusal(Permission::Operate);
    let buttons = Buttons::unless(refusal.as_deref());
    let (times, back) = (visit.render_times(common.now), address(&visit.state, id));
    let [head, failed] = regions(&summary.context(&visit.state, &times, buttons, &back), &one);
    let title = format!("Batch {id}");
    let list = table("Failed renders", COLUMNS, &failed.markup());
    let content = html! {
        h1 { (title) }
        (tabs(&visit, ""))
        (head.markup())
        (panel("failed", "Failed renders", &off(refusal.as_deref()), &selection::form(&visit, &list, None)))
        p.soft { "At the command line: " (command(&format!("tidemill render batch {id}"))) }
    };
    let frame = Frame::new(&visit, &common, Section::Render).titled(&title);
    Ok(frame.live(Page::RenderBatch(id, buttons)).render(&content))
}

pub(crate) async fn question(visit: &PageContext, tx: &mut Tx, text: &str) -> Result<QuestionPage, Problem> {
    let batch = find(tx, RenderId::new(parse_id(text)?)).await?;
    let (id, action) = (batch.id, Action::BatchRetry);
    let back = address(&visit.state, id);
    let all = tx.renders().failed_in_batch(id).await?;
    let failed = all.iter().filter(|record| takes(action, &record.render)).count();
    let rejected = all.len() - failed;
    let none = match rejected {
        0 => "No render of this batch has failed.",
        _ => "The failed renders of this batch were rejected. Retry each by itself.",
    };
    let button = format!("Retry {}", plural(failed, "render", "renders"));
    let sheet = Sheet {
        question: format!("Retry the failed renders of batch {id}?"),
        consequence: html! {
            p { (plural(failed, "failed render", "failed renders")) " of this batch. All failure counts are reset." }
            p { "What could only not be published is not rendered again." }
            @if rejected > 0 {
                p { "Not retried, because a person has rejected the file: " (plural(rejected, "render", "renders")) "." }
            }
        },
        form: SheetForm::Own { address: format!("{back}/retry"), hidden: form::hidden(&visit.principal) },
        fields: reason_field(WHY, Reason::Required, None),
        back,
        leave: "Go back",
        button,
        ends: false,
        refusal: visit.refusal(Permission::Operate).or_else(|| (failed == 0).then(|| none.to_owned())),
        command: Some(action.command_for(id)),
    };
    let heading = html! { h1 { "Renders" } (tabs(visit, "")) };
    Ok(QuestionPage { section: Section::Render, title: format!("Retry batch {id}"), heading, sheet })
}
