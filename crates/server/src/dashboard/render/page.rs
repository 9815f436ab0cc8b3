//! The list of renders. It is live without a filter or with a status only; search results are not.

use super::board::{Board, PAGE_ROWS, RenderSummary, queue, regions};
use super::row::{COLUMNS, RowContext, row};
use super::selection;
use crate::api::render::{date, status};
use crate::api::{QueryString, id};
use crate::dashboard::form::{Pairs, field};
use crate::dashboard::part::{given, list_table, pager, panel, query, table};
use crate::dashboard::region::show;
use crate::dashboard::{Buttons, Frame, Page, PageContext, PageResult, PageSnapshot, Section};
use crate::problem::Problem;
use maud::{Markup, PreEscaped, html};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tidemill_domain::access::Permission;
use tidemill_domain::outbox::Count;
use tidemill_domain::render::{RenderId, Status};
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::Selection;
use tidemill_store::Tx;
use tidemill_store::render::list::SEARCHED_MAX;
use tidemill_store::render::{RenderFilter, RenderRecord, RenderSearch};

/// Search results show their place in the queue if it is one of the first.
const PLACED_MAX: u32 = 200;

/// As the overview counts.
const LATELY: Duration = Duration::from_secs(24 * 3600);

tidemill_domain::words! {
    /// Renders that the overview counts.
    pub(crate) enum Show {
        Active = "active",
        Late = "late",
        FailedLately = "failed_24h",
    }
}

impl Show {
    const fn label(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Late => "Late",
            Self::FailedLately => "Failed in 24 h",
        }
    }
}

/// Empty fields do not filter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RenderQuery {
    pub(super) status: String,
    composition: String,
    text: String,
    date: String,
    batch: String,
    show: String,
    before: Option<i64>,
}

impl RenderQuery {
    /// Reads pairs, which may have others too.
    pub(super) fn of_fields(pairs: &Pairs) -> Self {
        let text = |name: &str| field(pairs, name).to_owned();
        let [status, composition, text_part, date, batch, show] =
            ["status", "composition", "text", "date", "batch", "show"].map(text);
        Self { status, composition, text: text_part, date, batch, show, before: None }
    }

    fn status(&self) -> Result<Option<Status>, Problem> {
        let is_failed = self.show()? == Some(Show::FailedLately);
        let status = given(&self.status).map(status).transpose()?;
        Ok(status.or(is_failed.then_some(Status::Failed)))
    }

    fn show(&self) -> Result<Option<Show>, Problem> {
        let unknown = |_| {
            Problem::bad_request("unknown value of show", format!("use one of {}", Show::NAMES.join(", ")))
        };
        given(&self.show).map(|word| word.parse().map_err(unknown)).transpose()
    }

    /// Whether there is a filter besides the status.
    fn is_filtered(&self) -> bool {
        let others = [&self.composition, &self.text, &self.date, &self.batch, &self.show];
        others.into_iter().any(|text| given(text).is_some())
    }

    /// Then the page is live.
    fn is_plain(&self) -> bool {
        self.before.is_none() && !self.is_filtered()
    }

    fn is_first(&self) -> bool {
        self.before.is_none()
    }

    fn before(&self) -> Option<RenderId> {
        self.before.map(RenderId::new)
    }

    /// Whether all that match may be changed together. What is active is no status of its own.
    fn is_narrow(&self) -> bool {
        (self.is_filtered() || given(&self.status).is_some()) && self.show != Show::Active.as_str()
    }

    /// All renders that match.
    pub(super) fn selection(&self, now: Timestamp) -> Result<Selection, Problem> {
        if !self.is_narrow() {
            return Err(Problem::bad_request("no filter is set", "choose a status or a filter first"));
        }
        let (filter, text) = (self.filter(now)?, self.text().map(str::to_owned));
        Ok(Selection::Matching { filter, text, is_late: false })
    }

    fn filter(&self, now: Timestamp) -> Result<RenderFilter, Problem> {
        let show = self.show()?;
        Ok(RenderFilter {
            status: self.status()?,
            composition: given(&self.composition).map(str::to_owned),
            worker: None,
            date: given(&self.date).map(date).transpose()?,
            batch: given(&self.batch).map(id).transpose()?.map(RenderId::new),
            late_at: (show == Some(Show::Late)).then_some(now),
            ended_after: (show == Some(Show::FailedLately)).then(|| now.minus(LATELY)),
        })
    }

    fn text(&self) -> Option<&str> {
        given(&self.text)
    }

    /// Whether a render matches, apart from its status.
    fn meets(&self, record: &RenderRecord, filter: &RenderFilter) -> bool {
        let parts = [record.composition.as_deref(), record.cue_item.as_deref()];
        let error = record.render.reason.as_ref().map(|reason| reason.message.as_str());
        let mut texts = parts.into_iter().flatten().chain(error).map(str::to_lowercase);
        let has_text = self.text().is_none_or(|part| texts.any(|text| text.contains(&part.to_lowercase())));
        has_text
            && (filter.composition.is_none() || filter.composition == record.composition)
            && (filter.date.is_none() || filter.date == record.broadcast_date)
            && (filter.batch.is_none() || filter.batch == record.batch)
            && (filter.late_at.is_none()
                || record.render.deadline.is_some_and(|at| Some(at) <= filter.late_at))
    }

    /// The query string of the same filter with another status, and `more` at its end.
    pub(super) fn query(&self, status: &str, more: &str) -> String {
        let fields = [
            ("status", status),
            ("composition", &self.composition),
            ("text", &self.text),
            ("date", &self.date),
            ("batch", &self.batch),
            ("show", &self.show),
        ];
        query(fields, more)
    }
}

pub(crate) async fn page(visit: PageContext, QueryString(query): QueryString<RenderQuery>) -> PageResult {
    let status = query.status()?;
    let refusal = visit.refusal(Permission::Operate);
    let buttons = Buttons::unless(refusal.as_deref());
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let summary = RenderSummary::read(&mut tx).await?;
    let times = visit.render_times(common.now);
    let context = summary.context(&visit.state, &times, buttons, &visit.address);
    // Search results are not live.
    let (live, [chips, banner, table, below]) = if query.is_plain() {
        let board = Board::read(&mut tx, status).await?;
        let regions = regions(&context, &summary, &board);
        let rows = html! { @for part in ["at-work", "waiting", "ended"] { (show(&regions, part)) } };
        let table = table("Renders", COLUMNS, &rows);
        let below = pages(&visit, &query, board.ended.last_of_more().map(RenderRecord::id), &html! {});
        let live = Page::Renders(status, buttons);
        (live, [show(&regions, "chips"), show(&regions, "banner"), table, below])
    } else {
        let results = SearchResults::read(&mut tx, &query, common.now).await?;
        let chips = summary.chips(&visit.state, &query, status);
        let chips = html! { nav.chips aria-label="Statuses" { (chips) } };
        let (table, below) = (results.table(&context), results.below(&visit, &query));
        (Page::Other, [chips, summary.banner(&visit.state), table, below])
    };
    let markup = html! {
        h1 { "Renders" }
        (tabs(&visit, "/render"))
        (banner)
        (chips)
        section.panel aria-label="Filter" { (filter_form(&visit, &query)) }
        (panel("renders", "Renders", &off(refusal.as_deref()), &html! {
            (selection::form(&visit, &table, query.is_narrow().then_some((&query, status))))
            (below)
        }))
    };
    Ok(Frame::new(&visit, &common, Section::Render).live(live).render(&markup))
}

/// Why the buttons are disabled. The buttons refer to it by its id.
pub(crate) fn off(refusal: Option<&str>) -> Markup {
    html! {
        @if let Some(reason) = refusal {
            span.soft #buttons-off { "Buttons are disabled. " (reason) }
        }
    }
}

pub(crate) fn tabs(visit: &PageContext, here: &str) -> Markup {
    html! {
        nav.chips aria-label="Pages about renders" {
            @for (path, word) in [("/render", "Renders"), ("/render/workers", "Workers"), ("/render/profiles", "Profiles"), ("/render/mappings", "Mappings"), ("/render/new", "Order a render"), ("/render/batch", "Order a batch")] {
                a href=(visit.state.path(path)) aria-current=[(path == here).then_some("page")] { (word) }
            }
        }
    }
}

fn filter_form(visit: &PageContext, query: &RenderQuery) -> Markup {
    let address = visit.state.path("/render");
    html! {
        form.body method="get" action=(address) {
            // The chips above choose the status.
            @if !query.status.trim().is_empty() { input type="hidden" name="status" value=(query.status); }
            div.fields {
                label { "Composition" input name="composition" value=(query.composition) autocomplete="off"; }
                label {
                    "Text"
                    input name="text" value=(query.text) placeholder="in the composition, cue or error" autocomplete="off";
                }
                label { "Broadcast date" input name="date" type="date" value=(query.date); }
                label { "Batch" input name="batch" inputmode="numeric" value=(query.batch) autocomplete="off"; }
                label {
                    "Show"
                    select name="show" {
                        option value="" { "All" }
                        @for show in Show::ALL {
                            option value=(show) selected[query.show == show.as_str()] { (show.label()) }
                        }
                    }
                }
                div.row { button.do { "Show" } " " a href=(address) { "Clear" } }
            }
        }
    }
}

/// Links to the newest page and to the page before this render.
fn pages(visit: &PageContext, query: &RenderQuery, before: Option<RenderId>, note: &Markup) -> Markup {
    let address = |more: &str| format!("{}{}", visit.state.path("/render"), query.query(&query.status, more));
    let newest = (!query.is_first()).then(|| address(""));
    pager(newest, before.map(|id| address(&format!("before={id}"))), note)
}

struct SearchResults {
    at_work: Vec<RenderRecord>,
    others: RenderSearch,
    has_more: bool,
    /// How many renders are ahead of each one in the queue.
    ahead: HashMap<RenderId, u64>,
    previews: BTreeMap<RenderId, String>,
}

impl SearchResults {
    async fn read(tx: &mut Tx, query: &RenderQuery, now: Timestamp) -> Result<Self, Problem> {
        let filter = query.filter(now)?;
        let mut others = match query.show()? {
            Some(Show::Active) => RenderSearch { records: Vec::new(), searched_to: None },
            _ => tx.renders().search(&filter, query.text(), query.before(), PAGE_ROWS + 1).await?,
        };
        let has_more = others.records.len() > PAGE_ROWS as usize;
        others.records.truncate(PAGE_ROWS as usize);
        let mut at_work = Vec::new();
        if filter.status.is_none() {
            // Active renders are at the top of the first page and nowhere else.
            if query.is_first() {
                at_work = tx.renders().at_work(PLACED_MAX).await?;
                at_work.retain(|record| query.meets(record, &filter));
            }
            let is_above = |record: &RenderRecord| at_work.iter().any(|other| other.id() == record.id());
            others.records.retain(|record| !is_above(record));
        }
        let mut ahead = HashMap::new();
        if others.records.iter().any(|record| record.render.status == Status::Pending) {
            let waiting = tx.renders().waiting(PLACED_MAX).await?;
            ahead.extend(queue(&waiting, now).map(|(record, ahead)| (record.id(), ahead)));
        }
        let shown: Vec<_> = at_work.iter().chain(&others.records).collect();
        let previews = tx.renders().previews(&shown).await?;
        Ok(Self { at_work, others, has_more, ahead, previews })
    }

    fn table(&self, context: &RowContext<'_>) -> Markup {
        let rows = self.at_work.iter().chain(&self.others.records).map(|record| {
            let ahead = self.ahead.get(&record.id()).copied();
            let ahead = ahead.map_or(Count::AtLeast(PLACED_MAX.into()), Count::Exactly);
            let preview = self.previews.get(&record.id()).map_or("", String::as_str);
            PreEscaped(row(context, record, preview, ahead).html)
        });
        list_table("Renders", COLUMNS, rows, &html! { "No renders match." })
    }

    fn below(&self, visit: &PageContext, query: &RenderQuery) -> Markup {
        let last = self.others.records.last().filter(|_| self.has_more).map(RenderRecord::id);
        // A search stops after some renders, so there can be older matches without a full page.
        let before = last.or(self.others.searched_to);
        let note = html! {
            @if last.is_none() && self.others.searched_to.is_some() {
                span.soft { "Searched " (SEARCHED_MAX) " renders. There are older ones." }
            }
            span.soft { "Search results do not update themselves." }
        };
        pages(visit, query, before, &note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_what_was_chosen_and_leaves_out_what_was_not() {
        let query = RenderQuery { composition: "a&b".into(), date: " ".into(), ..RenderQuery::default() };

        assert_eq!(query.query("failed", "before=7"), "?status=failed&composition=a%26b&before=7");
        assert_eq!(RenderQuery::default().query("", ""), "");
        assert!(
            RenderQuery { status: "failed".into(), date: " ".into(), ..RenderQuery::default() }.is_plain()
        );
        assert!(!query.is_plain());
    }
}
