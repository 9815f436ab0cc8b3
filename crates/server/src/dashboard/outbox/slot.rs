//! The 256 slots: a picture of their owners and waiting events, and a table by owner.

use super::page::{OutboxOverview, count, oldest, unknown};
use crate::dashboard::part::{Health, list_table, state};
use crate::dashboard::{Audience, Page, Region, Times};
use maud::{Markup, html};
use tidemill_domain::outbox::RelayId;
use tidemill_store::outbox::{Backlog, SlotLag};

const COLUMNS: &[&str] = &["Owner", "#Slots", "Numbers", "#Epoch", "#Unpublished", "Oldest"];

/// Colours that owners take in turn.
const COLOURS: usize = 5;

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

/// The owners in the order of their colours: live relays in the order they joined, then relays that are gone.
fn owners(overview: &OutboxOverview) -> Vec<RelayId> {
    let live = overview.relays.iter().map(|relay| relay.relay.id);
    let mut owners = Vec::new();
    for id in live.chain(overview.lag.iter().flatten().filter_map(|slot| slot.owner)) {
        if !owners.contains(&id) {
            owners.push(id);
        }
    }
    owners
}

/// The class of the colour of an owner.
fn colour(owners: &[RelayId], owner: Option<RelayId>) -> Option<String> {
    let number = owners.iter().position(|id| Some(*id) == owner)?;
    Some(format!("k{}", number % COLOURS))
}

/// Class and text of a slot whose events wait or failed.
fn load(overview: &OutboxOverview, slot: &SlotLag) -> Option<(&'static str, &'static str)> {
    match (overview.failed.of_slot(slot.slot).rows.least(), slot.rows.least()) {
        (0, 0) => None,
        (0, _) => Some(("waits", "events wait")),
        _ => Some(("failed", "failed events")),
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

fn strip(overview: &OutboxOverview, slots: &[SlotLag], owners: &[RelayId]) -> Markup {
    html! {
        svg.slots viewBox="0 0 256 14" preserveAspectRatio="none" role="img" {
            title { "The 256 slots by owner" }
            desc { "Top: owner of each slot. Bottom: slots with waiting events. The table below has the same data." }
            @for (from, to, owner) in runs(slots.iter().map(|slot| slot.owner)) {
                rect class=(colour(owners, owner).as_deref().unwrap_or("free")) x=(from) width=(to - from + 1) height="9" {
                    title { (range(from, to)) ": " (named(overview, owner)) }
                }
            }
            @for (from, to, load) in runs(slots.iter().map(|slot| load(overview, slot))) {
                @if let Some((class, text)) = load {
                    rect class=(class) x=(from) y="10" width=(to - from + 1) height="4" {
                        title { (range(from, to)) ": " (text) }
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

fn rows(overview: &OutboxOverview, slots: &[SlotLag], owners: &[RelayId], times: &Times) -> Vec<Markup> {
    let row = |owner: Option<RelayId>| {
        let own: Vec<&SlotLag> = slots.iter().filter(|slot| slot.owner == owner).collect();
        (!own.is_empty()).then(|| row(overview, owner, colour(owners, owner), &own, times))
    };
    owners.iter().copied().map(Some).chain([None]).filter_map(row).collect()
}

fn row(
    overview: &OutboxOverview,
    owner: Option<RelayId>,
    colour: Option<String>,
    slots: &[&SlotLag],
    times: &Times,
) -> Markup {
    let numbers: Vec<usize> = slots.iter().map(|slot| usize::from(slot.slot.get())).collect();
    let epochs = || slots.iter().map(|slot| slot.epoch.get());
    let (least, most) = (epochs().min().unwrap_or(0), epochs().max().unwrap_or(0));
    let backlog = slots.iter().map(|slot| slot.unread().plus(overview.failed.of_slot(slot.slot)));
    let backlog = backlog.fold(Backlog::NONE, Backlog::plus);
    let is_live = owner.is_some_and(|id| overview.relay(id).is_some());
    html! {
        tr {
            th.long scope="row" {
                @if let Some(colour) = colour { span.key.(colour) aria-hidden="true" {} " " }
                @if is_live { (named(overview, owner)) } @else { (state(Health::Warn, &named(overview, owner))) }
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
