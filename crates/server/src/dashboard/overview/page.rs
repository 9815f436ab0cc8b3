//! The page itself, and its parts that change by themselves.

use super::outbox::{self, Outbox};
use super::{database, event, lease, pool, process, tile};
use crate::dashboard::alert;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::part::{panel, table};
use crate::dashboard::pulse::Pulse;
use crate::dashboard::region::{Page, Region};
use crate::dashboard::visit::Visit;
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::audit::AuditRecord;
use tidemill_store::StoreError;
use tidemill_store::audit::AuditFilter;
use tidemill_store::migration::MigrationStatus;
use tidemill_store::pool::PoolLevel;

const EVENTS: u32 = 50;

/// What the overview tells.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) pulse: Pulse,
    events: Vec<AuditRecord>,
    pools: Vec<PoolLevel>,
    stories: Vec<tidemill_store::pool::PoolStory>,
    outbox: Outbox,
    migrations: Vec<MigrationStatus>,
}

impl Snapshot {
    /// Looks.
    pub(crate) async fn read(state: &State) -> Result<Self, StoreError> {
        let (pulse, mut tx) = Pulse::read(state).await?;
        let events = tx.audit_entries(&AuditFilter::default(), EVENTS).await?;
        let pools = tx.pool_levels(pool::SHOWN).await?;
        let stories = pool::stories(&mut tx).await?;
        let outbox = Outbox::read(&mut tx).await?;
        tx.rollback().await?;
        let migrations = state.store().migration_status().await?;
        Ok(Self { pulse, events, pools, stories, outbox, migrations })
    }
}

/// The parts that change by themselves. The page is put together from the very same.
#[derive(Debug)]
pub(crate) struct Regions {
    tiles: Region,
    processes: Region,
    leases: Region,
    pools: Region,
    pool_events: Region,
    outbox: Region,
    database: Region,
    alerts: Region,
    events: Region,
}

impl Regions {
    /// Renders them.
    pub(crate) fn new(state: &State, snapshot: &Snapshot, times: &Times) -> Self {
        let pulse = &snapshot.pulse;
        Self {
            tiles: tile::region(state, pulse, &snapshot.outbox),
            processes: process::region(pulse, state.inner().parts.process.id(), times),
            leases: lease::region(pulse, times),
            pools: pool::region(&snapshot.pools),
            pool_events: pool::event_region(&snapshot.stories, times),
            outbox: outbox::region(&snapshot.outbox, times),
            database: database::region(state, pulse.latency, &snapshot.migrations),
            alerts: alert::list::region(pulse, times),
            events: event::region(&snapshot.events, times),
        }
    }

    /// As a list, for those who compare and send.
    pub(crate) fn into_vec(self) -> Vec<Region> {
        vec![
            self.tiles,
            self.processes,
            self.leases,
            self.pools,
            self.pool_events,
            self.outbox,
            self.database,
            self.alerts,
            self.events,
        ]
    }

    fn pools(&self) -> Markup {
        html! {
            (table("Pools", pool::COLUMNS, &self.pools.markup()))
            h3 { "Recent events of pools" }
            (table("Recent events of pools", pool::EVENT_COLUMNS, &self.pool_events.markup()))
        }
    }

    fn content(&self) -> Markup {
        let nothing = html! {};
        let links = html! { span.soft { "The last " (EVENTS) ", the newest first." } };
        html! {
            h1 { "Overview" }
            (self.tiles.markup())
            (panel("alerts", "Alerts", &nothing, &table("Alerts", alert::list::COLUMNS, &self.alerts.markup())))
            (panel("processes", "Processes", &nothing, &table("Processes", process::COLUMNS, &self.processes.markup())))
            (panel("leases", "Leases", &nothing, &table("Leases", lease::COLUMNS, &self.leases.markup())))
            (panel("pools", "Pools", &nothing, &self.pools()))
            (panel("outbox", "Outbox", &nothing, &self.outbox.markup()))
            (panel("database", "Database", &nothing, &self.database.markup()))
            (panel("events", "Recent events", &links, &table("Recent events", event::COLUMNS, &self.events.markup())))
        }
    }
}

/// The page.
pub(crate) async fn page(visit: Visit) -> Result<Html<String>, Problem> {
    let snapshot = Snapshot::read(&visit.state).await?;
    let regions = Regions::new(&visit.state, &snapshot, &visit.times(snapshot.pulse.now));
    let frame = Frame {
        visit: &visit,
        pulse: &snapshot.pulse,
        section: Section::Overview,
        title: None,
        page: Page::Overview,
    };
    Ok(frame.render(&regions.content()))
}
