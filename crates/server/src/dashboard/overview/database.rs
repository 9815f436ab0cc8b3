//! The database: kind, place, latency, and the state of its schema.

use crate::dashboard::page_snapshot::milliseconds;
use crate::dashboard::part::{Health, state as state_word};
use crate::dashboard::region::{Audience, Page, Region};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_store::migration::{MigrationState, MigrationStatus};

pub(super) fn region(state: &State, latency: Duration, migrations: &[MigrationStatus]) -> Region {
    let store = state.store();
    let markup = html! {
        div.body data-live="database" {
            dl {
                dt { "Kind" } dd { (store.dialect()) }
                dt { "Place" } dd { code { (store.place()) } }
                dt { "Latency" } dd { (milliseconds(latency)) }
                dt { "Migrations" } dd { (schema(migrations)) }
            }
        }
    };
    Region::whole("database", Audience::On(&[Page::Overview]), markup)
}

fn schema(migrations: &[MigrationStatus]) -> Markup {
    let count = |state| migrations.iter().filter(|line| line.state == state).count();
    let (applied, pending) = (count(MigrationState::Applied), count(MigrationState::Pending));
    let odd = migrations.len() - applied - pending;
    let last = migrations.iter().rfind(|line| line.state != MigrationState::Pending);
    html! {
        @if pending > 0 {
            (state_word(Health::Bad, &format!("{pending} pending")))
        } @else if odd > 0 {
            (state_word(Health::Warn, &format!("{odd} newer than this program or changed")))
        } @else {
            (state_word(Health::Ok, &format!("{applied} of {applied} applied")))
        }
        @if let Some(last) = last {
            span.soft { ", latest " (last.version) " (" (last.name) ")" }
        }
    }
}
