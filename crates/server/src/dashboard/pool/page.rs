//! The page of a pool: usage now and over time, and tabs for leases, queue, history and settings.

use super::address::{PoolPage, Range, Tab};
use super::breaker;
use super::graph::{self, Past};
use super::list::{RowContext, bar, pool_state};
use super::order::{self, PoolNotice};
use super::{history, settings, ticket};
use crate::api::QueryString;
use crate::api::pool::{named, object, unknown};
use crate::dashboard::part::{command, panel, plain_panel, plural, sentence, span, table};
use crate::dashboard::region::show;
use crate::dashboard::{Buttons, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Section};
use axum::extract::Path;
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeMap;
use tidemill_domain::access::Permission;
use tidemill_domain::pool::estimate::Accuracy;
use tidemill_domain::pool::{Ledger, State as TicketState, Ticket, TicketId};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::{LastAudit, TicketRecord};
use tidemill_store::{StoreError, Tx};

#[derive(Debug)]
pub(crate) struct PoolData {
    ledger: Ledger,
    holders: Vec<TicketRecord>,
    /// By which rules they started.
    starts: BTreeMap<TicketId, String>,
    past: Past,
    score: Accuracy,
    audit: Option<LastAudit>,
}

impl PoolData {
    /// None when there is no such pool.
    pub(crate) async fn read(
        tx: &mut Tx,
        page: &PoolPage,
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        let name = &page.name;
        let Some(ledger) = tx.pools().ledger(name).await? else { return Ok(None) };
        let (mut holders, mut starts) = (Vec::new(), BTreeMap::new());
        if page.tab == Tab::Holders {
            holders = tx.pools().tickets(name, &TicketState::HELD, ticket::SHOWN + 1).await?;
            starts.extend(tx.pools().starts(name, ticket::SHOWN + 1).await?.iter().filter_map(ticket::start));
        }
        let past = Past::read(tx, name, page.range, now).await?;
        let score = tx.pools().estimate_accuracy(name).await?;
        let audit = tx.pools().find(name).await?.and_then(|record| record.audit);
        Ok(Some(Self { ledger, holders, starts, past, score, audit }))
    }

    fn count(&self, is: impl Fn(&Ticket) -> bool) -> u64 {
        self.ledger.tickets().filter(|ticket| is(ticket)).count() as u64
    }

    fn waiting(&self) -> u64 {
        self.count(|ticket| ticket.state == TicketState::Waiting)
    }

    fn waiting_since(&self) -> Option<Timestamp> {
        let waiting = self.ledger.tickets().filter(|ticket| ticket.state == TicketState::Waiting);
        waiting.map(|ticket| ticket.enqueued_at).min()
    }
}

/// The live regions. The page is made of the same.
pub(crate) fn regions(context: &RowContext<'_>, pool: &PoolData, page: &PoolPage) -> Vec<Region> {
    let at = Page::Pool(page.clone(), context.buttons);
    let figure = graph::figure(&pool.past, context.times);
    let mut regions = vec![
        Region::at(&at, "head", |live| head(context, pool, live)),
        Region::at(&at, "graph", |live| html! { div.body data-live=(live) { (figure) } }),
        Region::at(&at, "tabs", |live| tabs(context, pool, page, live)),
    ];
    match page.tab {
        Tab::Holders => regions.push(ticket::holders(context, &page.name, &pool.holders, &pool.starts, &at)),
        Tab::Queue => regions.push(ticket::queue(context, &pool.ledger, &at)),
        Tab::History | Tab::Settings => {}
    }
    regions
}

fn head(context: &RowContext<'_>, pool: &PoolData, live: &str) -> Markup {
    let (settings, times) = (pool.ledger.settings(), context.times);
    let level = pool.ledger.level_at(times.now());
    let breaker = pool.ledger.breaker().seen(settings.limit_at(times.now()), times.now());
    let (suspect, waiting) = (pool.count(|ticket| ticket.state == TicketState::Suspect), pool.waiting());
    html! {
        div.body data-live=(live) {
            p.lead {
                (pool_state(settings, &breaker, level, suspect, waiting)) " "
                b { (level.usage) } " of " b { (level.limit) } " units in use · " b { (waiting) } " waiting"
            }
            (bar(level, pool.past.peak().map(|step| step.most)))
            dl.apart {
                dt { "Limit" }
                dd { (level.limit) " (" (settings.threshold_percent) " % of " (level.max_units) ")" }
                dt { "Available" }
                dd {
                    (level.available())
                    @if level.over_by() > 0 { ", over the limit by " (level.over_by()) }
                }
                dt { "Holders" }
                dd {
                    (pool.count(|ticket| ticket.state.counts()))
                    @if suspect > 0 { ", " (suspect) " suspect" }
                }
                dt { "Oldest wait" }
                dd { (times.maybe_length(pool.waiting_since(), "none")) }
                dt { "Policy" } dd { (settings.policy) ": " (settings.policy.about()) }
                (breaker::fact(context, &breaker))
                dt { "Estimates" } dd { (pool.score) }
                @if let Some(audit) = &pool.audit {
                    dt { "Audit" }
                    dd {
                        (times.at(audit.at)) ": " (plural(audit.decisions, "decision", "decisions")) ", "
                        (plural(audit.violations, "violation", "violations"))
                    }
                }
                @if let Some(pause) = &settings.paused {
                    dt { "Paused" } dd { (times.at(pause.at)) " by " (pause.by) ": " (pause.reason) }
                }
            }
            div.row {
                (order::button(context.state, context.buttons, settings))
                (command(&settings.possible().command_for(&settings.name)))
                (breaker::buttons(context, &settings.name, &breaker))
            }
        }
    }
}

fn tabs(context: &RowContext<'_>, pool: &PoolData, chosen: &PoolPage, live: &str) -> Markup {
    let address = |tab: Tab| context.state.path(&PoolPage { tab, ..chosen.clone() }.path());
    html! {
        nav.chips data-live=(live) aria-label="Parts of the pool" {
            @for tab in Tab::ALL {
                a href={ (address(tab)) "#tab" } aria-current=[(tab == chosen.tab).then_some("page")] {
                    (sentence(tab.as_str()))
                    @match tab {
                        Tab::Holders => { " " b { (pool.count(|ticket| ticket.state.counts())) } }
                        Tab::Queue => { " " b { (pool.count(Ticket::is_queued)) } }
                        Tab::History | Tab::Settings => {}
                    }
                }
            }
        }
    }
}

/// Unknown words count as missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PoolPageQuery {
    tab: String,
    range: String,
    before: Option<String>,
}

pub(crate) async fn page(
    visit: PageContext,
    Path(name): Path<String>,
    QueryString(query): QueryString<PoolPageQuery>,
    QueryString(notice): QueryString<PoolNotice>,
) -> PageResult {
    let name = named(&name)?;
    let tab = query.tab.parse().unwrap_or_default();
    let range: Range = query.range.parse().unwrap_or_default();
    let at = PoolPage::new(&name, tab, range);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let pool = PoolData::read(&mut tx, &at, common.now).await?.ok_or_else(|| unknown(name.as_str()))?;
    let refusal = visit.refusal_of(Permission::Operate, &object(&name));
    let (times, buttons) = (visit.times(common.now), Buttons::unless(refusal.as_deref()));
    let context = RowContext { state: &visit.state, times: &times, buttons };
    let regions = regions(&context, &pool, &at);
    let settings = pool.ledger.settings();
    let tab = match tab {
        Tab::Holders => listed(&show(&regions, "holders"), ticket::HOLDER_COLUMNS, &at),
        Tab::Queue => listed(&show(&regions, "queue"), ticket::QUEUE_COLUMNS, &at),
        Tab::History => {
            let before = query.before.as_deref().and_then(history::place);
            history::markup(&mut tx, &visit.state, &name, range, before, &times).await?
        }
        Tab::Settings => settings::markup(&visit, settings),
    };
    let why = html! { @if let Some(reason) = &refusal { span.soft { (reason) } } };
    let content = html! {
        h1 { (name) @if let Some(id) = settings.external_id { " " span.soft { "(" (id) ")" } } }
        (order::done(&visit, &notice, std::iter::once(settings), &at.path()))
        (order::form(&visit, &at.path()))
        (panel("now", "Now", &why, &show(&regions, "head")))
        (panel("usage", "Usage", &ranges(&visit, &at), &show(&regions, "graph")))
        p { a href=(visit.state.path(&format!("/pools/{name}/replay?range={range}"))) { "Replay with other settings" } }
        (show(&regions, "tabs"))
        (plain_panel("tab", &sentence(at.tab.as_str()), &tab))
    };
    let frame = Frame::new(&visit, &common, Section::Pools).titled(name.as_str());
    Ok(frame.live(Page::Pool(at, buttons)).render(&content))
}

fn ranges(visit: &PageContext, at: &PoolPage) -> Markup {
    let address = |range| visit.state.path(&PoolPage { range, ..at.clone() }.path());
    html! {
        nav.chips.tight aria-label="Time range" {
            @for range in Range::ALL {
                a href={ (address(range)) "#usage" } aria-current=[(range == at.range).then_some("true")] {
                    (span(range.length()))
                }
            }
        }
    }
}

fn listed(tbody: &Markup, columns: &[&str], at: &PoolPage) -> Markup {
    html! {
        (table(&sentence(at.tab.as_str()), columns, tbody))
        p.body.soft { "At the command line: " (command(&format!("tidemill pool {} {}", at.tab, at.name))) }
    }
}
