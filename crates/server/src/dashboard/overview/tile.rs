//! The numbers at the top.

use super::outbox::Outbox;
use crate::dashboard::part::{Count, Health, tile};
use crate::dashboard::pulse::Pulse;
use crate::dashboard::region::{Audience, Page, Region};
use crate::state::State;
use maud::html;
use std::time::Duration;
use tidemill_domain::alert::AlertState;
use tidemill_domain::process::ProcessState;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The tiles.
pub(super) fn region(state: &State, pulse: &Pulse, outbox: &Outbox) -> Region {
    let live = pulse.processes.count(|process| process.state.is_live(pulse.now));
    let lost = pulse.processes.count(|process| match process.state {
        ProcessState::Live { .. } => !process.state.is_live(pulse.now),
        ProcessState::Dead { at } => pulse.now.since(at) < DAY,
        ProcessState::Stopped { .. } => false,
    });
    let held = pulse.leases.count(|lease| lease.is_live);
    let firing = pulse.alerts.count(|alert| matches!(alert.state, AlertState::Firing { .. }));
    let none_is = |good: Health, bad: Health, count: Count| if count.is_zero() { good } else { bad };
    let markup = html! {
        div.tiles data-live="tiles" {
            (tile("#processes", &live, none_is(Health::Bad, Health::Ok, live), "live processes"))
            (tile("#processes", &lost, none_is(Health::Ok, Health::Warn, lost), "silent or dead in 24 h"))
            (tile("#leases", &held, none_is(Health::Idle, Health::Ok, held), "leases held"))
            (tile("#outbox", &outbox.count(), outbox.health(pulse.now), "events unpublished"))
            (tile(&state.path("/alerts"), &firing, none_is(Health::Ok, Health::Bad, firing), "alerts firing"))
        }
    };
    Region::whole("tiles", Audience::On(&[Page::Overview]), markup)
}
