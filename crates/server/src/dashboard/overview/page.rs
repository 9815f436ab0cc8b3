//! The page itself, and its parts that change by themselves.

use super::attention::{self, Sources};
use super::outbox::{self, Outbox};
use super::pool::{self, Busiest};
use super::tile::{self, Counted};
use super::{database, event, lease, process};
use crate::dashboard::action;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, panel, table, wide_table};
use crate::dashboard::region::{Audience, Page, Region};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::audit::AuditRecord;
use tidemill_store::StoreError;
use tidemill_store::audit::AuditFilter;
use tidemill_store::job::{ExecutionTally, Failure};
use tidemill_store::migration::MigrationStatus;
use tidemill_store::pool::{PoolLevel, PoolStory};
use tidemill_store::render::RenderCounts;

const EVENTS: u32 = 20;

/// How long a failure is counted.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Among so many executions that failed those are looked for that nobody has gone on with.
const FAILURES_AMONG: u32 = 50;

#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) common: PageSnapshot,
    events: Vec<AuditRecord>,
    executions: ExecutionTally,
    failures: Vec<Failure>,
    has_jobs: bool,
    pools: Vec<PoolLevel>,
    stories: Vec<PoolStory>,
    busiest: Option<Busiest>,
    outbox: Outbox,
    renders: RenderCounts,
    migrations: Vec<MigrationStatus>,
}

impl Snapshot {
    pub(crate) async fn read(state: &State) -> Result<Self, StoreError> {
        let (common, mut tx) = PageSnapshot::read(state).await?;
        let pools = tx.pools().levels(pool::SHOWN).await?;
        let snapshot = Self {
            events: tx.audit().entries(&AuditFilter::default(), EVENTS).await?,
            executions: tx.jobs().execution_tally(DAY).await?,
            failures: tx.jobs().open_failures(FAILURES_AMONG).await?,
            has_jobs: !tx.jobs().list(1).await?.is_empty(),
            stories: pool::stories(&mut tx).await?,
            busiest: Busiest::read(&mut tx, &pools, common.now).await?,
            pools,
            outbox: Outbox::read(&mut tx).await?,
            renders: tx.renders().counts().await?,
            migrations: Vec::new(),
            common,
        };
        drop(tx);
        let migrations = state.store().migration_status().await?;
        Ok(Self { migrations, ..snapshot })
    }

    /// Whether nobody has used anything yet.
    fn is_new(&self) -> bool {
        !self.has_jobs && self.pools.is_empty() && self.renders.by_status.is_empty()
    }
}

/// The parts that change by themselves. The page is put together from the very same.
#[derive(Debug)]
pub(crate) struct Regions {
    welcome: Region,
    tiles: Region,
    action: Option<Region>,
    attention: Region,
    pools: Region,
    pool_graph: Region,
    pool_events: Region,
    outbox: Region,
    events: Region,
    processes: Region,
    leases: Region,
    database: Region,
}

impl Regions {
    pub(crate) fn new(state: &State, snapshot: &Snapshot, times: &Times) -> Self {
        let Snapshot { common, outbox, pools, failures, .. } = snapshot;
        let counted = Counted { executions: snapshot.executions, outbox, renders: &snapshot.renders };
        Self {
            welcome: welcome(snapshot),
            tiles: tile::region(state, &counted, times),
            action: action::region(state),
            attention: attention::region(state, &Sources { common, failures, pools, outbox }, times),
            pools: pool::region(state, pools),
            pool_graph: pool::graph_region(state, snapshot.busiest.as_ref(), times),
            pool_events: pool::event_region(&snapshot.stories, times),
            outbox: outbox::region(outbox, times),
            events: event::region(&snapshot.events, times),
            processes: process::region(common, state.inner().parts.process.id(), times),
            leases: lease::region(common, times),
            database: database::region(state, common.latency, &snapshot.migrations),
        }
    }

    /// As a list, for those who compare and send.
    pub(crate) fn into_vec(self) -> Vec<Region> {
        let mut all = vec![
            self.welcome,
            self.tiles,
            self.attention,
            self.pools,
            self.pool_graph,
            self.pool_events,
            self.outbox,
            self.events,
            self.processes,
            self.leases,
            self.database,
        ];
        all.extend(self.action);
        all
    }

    fn pools(&self) -> Markup {
        html! {
            (wide_table("Pools", pool::COLUMNS, &self.pools.markup()))
            (self.pool_graph.markup())
            h3 { "Recent events of pools" }
            (table("Recent events of pools", pool::EVENT_COLUMNS, &self.pool_events.markup()))
        }
    }

    fn content(&self, visit: &PageContext) -> Markup {
        let (state, nothing) = (&visit.state, html! {});
        let last = html! { span.soft { "The last " (EVENTS) ", the newest first." } };
        let all = |path: &str| html! { a href=(state.path(path)) { "All" } };
        html! {
            h1 { "Overview" }
            (self.welcome.markup())
            (self.tiles.markup())
            (action::panel_of(visit, self.action.as_ref()))
            (panel("attention", "Needs attention", &nothing, &table("Needs attention", attention::COLUMNS, &self.attention.markup())))
            (panel("pools", "Pools", &all("/pools"), &self.pools()))
            (panel("outbox", "Outbox", &all("/outbox"), &self.outbox.markup()))
            (panel("events", "Recent events", &last, &table("Recent events", event::COLUMNS, &self.events.markup())))
            (panel("processes", "Processes", &nothing, &wide_table("Processes", process::COLUMNS, &self.processes.markup())))
            (panel("leases", "Leases", &nothing, &wide_table("Leases", lease::COLUMNS, &self.leases.markup())))
            (panel("database", "Database", &nothing, &self.database.markup()))
        }
    }
}

/// What to begin with, where nobody has begun.
fn welcome(snapshot: &Snapshot) -> Region {
    let markup = html! {
        div data-live="welcome" {
            @if snapshot.is_new() {
                div.banner {
                    p { "Nothing has run yet. See all of it at work: " (command("tidemill demo")) }
                    p { "Or begin with a job of your own: " (command("tidemill job run FILE")) }
                }
            }
        }
    };
    Region::whole("welcome", Audience::On(&[Page::Overview]), markup)
}

pub(crate) async fn page(visit: PageContext) -> Result<Html<String>, Problem> {
    let snapshot = Snapshot::read(&visit.state).await?;
    let regions = Regions::new(&visit.state, &snapshot, &visit.times(snapshot.common.now));
    let frame = Frame {
        visit: &visit,
        common: &snapshot.common,
        section: Section::Overview,
        title: None,
        page: Page::Overview,
    };
    Ok(frame.render(&regions.content(&visit)))
}
