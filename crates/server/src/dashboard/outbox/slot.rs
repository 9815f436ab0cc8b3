//! The 256 slots: a picture of their owners and waiting events, and a table by owner.

use super::overview::{OutboxOverview, count, oldest, unknown};
use crate::dashboard::instant::Times;
use crate::dashboard::part::{Health, list_table, state};
use crate::dashboard::region::{Audience, Page, Region};
use maud::{Markup, html};
use std::collections::BTreeMap;
use tidemill_domain::outbox::RelayId;
use tidemill_store::outbox::{Backlog, SlotLag};

const COLUMNS: &[&str] = &["Owner", "#Slots", "Numbers", "#Epoch", "#Unpublished", "Oldest"];

/// Colours that owners take in turn.
const COLOURS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    None,
    /// It has unpublished events.
    Waits,
    /// It has failed events.
    Failed,
}

pub(super) fn region(overview: &OutboxOverview, times: &Times) -> Region {
    let owners = owners(overview);
    let markup = html! {
        div data-live="outbox-slots" {
            @match &overview.lag {
                None => p.body { (unknown()) },
                Some(slots) => {
                    div.body { (strip(overview, slots, &owners)) }
                    (list_table("Slots by owner", COLUMNS, rows(overview, slots, &owners, times), &html! { "There are no slots." }))
                }
            }
        }
    };
    Region::whole("outbox-slots", Audience::On(&[Page::Outbox]), markup)
}

/// Each owner with a number: live relays in the order they joined, then relays that are gone.
fn owners(overview: &OutboxOverview) -> BTreeMap<RelayId, usize> {
    let live = overview.relays.iter().map(|relay| relay.relay.id);
    let all = live.chain(overview.lag.iter().flatten().filter_map(|slot| slot.owner));
    let mut owners = BTreeMap::new();
    for id in all {
        let next = owners.len();
        owners.entry(id).or_insert(next);
    }
    owners
}

fn load(overview: &OutboxOverview, slot: &SlotLag) -> Load {
    match (overview.failed.of_slot(slot.slot).rows.least(), slot.rows.least()) {
        (0, 0) => Load::None,
        (0, _) => Load::Waits,
        _ => Load::Failed,
    }
}

/// Runs of equal neighbours: first index, last index, value.
fn runs<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<(usize, usize, T)> {
    let mut runs: Vec<(usize, usize, T)> = Vec::new();
    for (place, value) in values.enumerate() {
        match runs.last_mut() {
            Some((_, to, last)) if *last == value => *to = place,
            _ => runs.push((place, place, value)),
        }
    }
    runs
}

fn named(overview: &OutboxOverview, owner: Option<RelayId>) -> String {
    match owner {
        None => "no owner".to_owned(),
        Some(id) => overview.relay(id).map_or_else(|| format!("{id} (gone)"), |relay| relay.name.clone()),
    }
}

fn strip(overview: &OutboxOverview, slots: &[SlotLag], owners: &BTreeMap<RelayId, usize>) -> Markup {
    let colour = |owner: Option<RelayId>| match owner.and_then(|id| owners.get(&id)) {
        Some(number) => format!("k{}", number % COLOURS),
        None => "free".to_owned(),
    };
    html! {
        svg.slots viewBox="0 0 256 14" preserveAspectRatio="none" role="img" {
            title { "The 256 slots by owner" }
            desc { "Top: owner of each slot. Bottom: slots with waiting events. The table below has the same data." }
            @for (from, to, owner) in runs(slots.iter().map(|slot| slot.owner)) {
                rect class=(colour(owner)) x=(from) width=(to - from + 1) height="9" {
                    title { (range(from, to)) ": " (named(overview, owner)) }
                }
            }
            @for (from, to, load) in runs(slots.iter().map(|slot| load(overview, slot))) {
                @match load {
                    Load::None => {}
                    Load::Waits => rect.waits x=(from) y="10" width=(to - from + 1) height="4" {
                        title { (range(from, to)) ": events wait" }
                    }
                    Load::Failed => rect.failed x=(from) y="10" width=(to - from + 1) height="4" {
                        title { (range(from, to)) ": failed events" }
                    }
                }
            }
        }
        p.legend {
            span.waits { "events wait" } " " span.failed { "failed events" } " " span.free { "no owner" }
        }
    }
}

fn range(from: usize, to: usize) -> String {
    if from == to { format!("{from}") } else { format!("{from}–{to}") }
}

fn rows(
    overview: &OutboxOverview,
    slots: &[SlotLag],
    owners: &BTreeMap<RelayId, usize>,
    times: &Times,
) -> Vec<Markup> {
    let mut groups: Vec<Option<RelayId>> = owners.keys().copied().map(Some).collect();
    groups.sort_by_key(|owner| owner.and_then(|id| owners.get(&id)));
    groups.push(None);
    let row = |owner| {
        let own: Vec<&SlotLag> = slots.iter().filter(|slot| slot.owner == owner).collect();
        (!own.is_empty()).then(|| row(overview, owner, &own, owners, times))
    };
    groups.into_iter().filter_map(row).collect()
}

fn row(
    overview: &OutboxOverview,
    owner: Option<RelayId>,
    slots: &[&SlotLag],
    owners: &BTreeMap<RelayId, usize>,
    times: &Times,
) -> Markup {
    let numbers: Vec<usize> = slots.iter().map(|slot| usize::from(slot.slot.get())).collect();
    let epochs: Vec<i64> = slots.iter().map(|slot| slot.epoch.get()).collect();
    let (least, most) =
        (epochs.iter().min().copied().unwrap_or(0), epochs.iter().max().copied().unwrap_or(0));
    let backlog = slots.iter().map(|slot| slot.unread().plus(overview.failed.of_slot(slot.slot)));
    let backlog = backlog.fold(Backlog::NONE, Backlog::plus);
    let is_gone = owner.is_some_and(|id| overview.relay(id).is_none());
    html! {
        tr {
            th.long scope="row" {
                @if let Some(number) = owner.and_then(|id| owners.get(&id)) {
                    span.key.{ "k" (number % COLOURS) } aria-hidden="true" {} " "
                }
                @if owner.is_none() || is_gone { (state(Health::Warn, &named(overview, owner))) } @else { (named(overview, owner)) }
            }
            td.number { (slots.len()) }
            td.long { (ranges(&numbers)) }
            td.number { @if least == most { (least) } @else { (least) " to " (most) } }
            td.number { (count(backlog.rows)) }
            td { (oldest(Some(backlog), times)) }
        }
    }
}

/// Sorted numbers as ranges, such as `0–2, 7`. Within a range, all numbers are equally far from their index.
fn ranges(numbers: &[usize]) -> String {
    let runs = runs(numbers.iter().enumerate().map(|(index, number)| number - index));
    runs.into_iter().map(|(from, to, _)| range(numbers[from], numbers[to])).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_put_together() {
        assert_eq!(ranges(&[0, 1, 2, 7, 9, 10]), "0–2, 7, 9–10");
        assert_eq!(ranges(&[]), "");
        assert_eq!(runs("aabca".chars()), [(0, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'a')]);
    }
}
