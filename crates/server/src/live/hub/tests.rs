//! The hub with a clock that the test moves.

use super::*;
use std::task::Waker;

const OVERVIEW: Audience = Audience::On(&[Page::Overview]);

fn at(millis: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_millis(millis))
}

fn whole(name: &str, html: &str) -> Region {
    Region {
        name: name.into(),
        audience: OVERVIEW,
        opening: html.into(),
        rows: Vec::new(),
        closing: String::new(),
    }
}

fn table(rows: &[(&str, &str)]) -> Region {
    let row = |(name, html): &(&str, &str)| Row { name: (*name).into(), html: (*html).into() };
    Region {
        name: "table".into(),
        audience: OVERVIEW,
        opening: "<tbody>".into(),
        rows: rows.iter().map(row).collect(),
        closing: "</tbody>".into(),
    }
}

fn listen(live: &Live, resume: Resume) -> Subscription {
    live.subscribe("ann", Page::Overview, resume).unwrap()
}

/// What waits for a listener, as `region=html`, without waiting for more.
fn waiting(subscription: &mut Subscription) -> Vec<String> {
    let mut context = Context::from_waker(Waker::noop());
    let mut found = Vec::new();
    while let Poll::Ready(sent) = subscription.poll_next(&mut context) {
        match sent {
            Some(Update::Patch(message)) => {
                let data: serde_json::Value = serde_json::from_str(&message.data).unwrap();
                found.push(format!("{}={}", data["r"].as_str().unwrap(), data["h"].as_str().unwrap()));
            }
            Some(Update::Reload) => found.push("reload".into()),
            None => {
                found.push("end".into());
                break;
            }
        }
    }
    found
}

#[test]
fn only_what_changed_is_sent() {
    let live = Live::default();
    let mut ann = listen(&live, Resume::Afresh);

    live.publish(vec![whole("a", "1"), whole("b", "1")], at(0));
    assert_eq!(waiting(&mut ann), ["a=1", "b=1"]);

    live.publish(vec![whole("a", "1"), whole("b", "2")], at(1000));
    assert_eq!(waiting(&mut ann), ["b=2"]);
}

#[test]
fn a_region_is_sent_at_most_once_in_a_second_and_then_in_its_latest_form() {
    let live = Live::default();
    let mut ann = listen(&live, Resume::Afresh);

    for (millis, text) in [(0, "1"), (300, "2"), (600, "3"), (999, "4")] {
        live.publish(vec![whole("a", text)], at(millis));
    }
    assert_eq!(waiting(&mut ann), ["a=1"]);

    live.publish(vec![whole("a", "4")], at(1000));
    assert_eq!(waiting(&mut ann), ["a=4"]);
}

#[test]
fn a_change_that_was_held_back_and_undone_is_not_sent() {
    let live = Live::default();
    let mut ann = listen(&live, Resume::Afresh);

    live.publish(vec![whole("a", "1")], at(0));
    live.publish(vec![whole("a", "2")], at(500));
    live.publish(vec![whole("a", "1")], at(1000));

    assert_eq!(waiting(&mut ann), ["a=1"]);
}

#[test]
fn a_table_changes_row_by_row_until_its_rows_are_others() {
    let live = Live::default();
    let mut ann = listen(&live, Resume::Afresh);

    live.publish(vec![table(&[("r1", "<tr>1</tr>"), ("r2", "<tr>2</tr>")])], at(0));
    live.publish(vec![table(&[("r1", "<tr>1</tr>"), ("r2", "<tr>two</tr>")])], at(1000));
    live.publish(vec![table(&[("r2", "<tr>two</tr>")])], at(2000));

    assert_eq!(
        waiting(&mut ann),
        ["table=<tbody><tr>1</tr><tr>2</tr></tbody>", "r2=<tr>two</tr>", "table=<tbody><tr>two</tr></tbody>"]
    );
}

#[test]
fn many_changed_rows_are_one_patch() {
    let live = Live::default();
    let mut ann = listen(&live, Resume::Afresh);
    let names: Vec<String> = (0..6).map(|number| format!("r{number}")).collect();
    let rows = |text| names.iter().map(|name| (name.as_str(), text)).collect::<Vec<_>>();

    live.publish(vec![table(&rows("a"))], at(0));
    live.publish(vec![table(&rows("b"))], at(1000));

    assert_eq!(waiting(&mut ann), ["table=<tbody>aaaaaa</tbody>", "table=<tbody>bbbbbb</tbody>"]);
}

#[test]
fn who_comes_later_is_shown_what_the_others_have() {
    let live = Live::default();
    let mut ann = listen(&live, Resume::Afresh);
    live.publish(vec![table(&[("r1", "1"), ("r2", "2")])], at(0));
    live.publish(vec![table(&[("r1", "1"), ("r2", "two")])], at(1000));
    assert_eq!(waiting(&mut ann).len(), 2);

    let mut bob = listen(&live, Resume::Afresh);

    assert_eq!(waiting(&mut bob), ["table=<tbody>1two</tbody>"]);
}

#[test]
fn who_comes_back_gets_exactly_what_was_missed() {
    let live = Live::default();
    let first = listen(&live, Resume::Afresh);
    for number in 1..=5u64 {
        live.publish(vec![whole("a", &number.to_string())], at(number * 1000));
    }
    drop(first);

    assert_eq!(waiting(&mut listen(&live, Resume::After(3))), ["a=4", "a=5"]);
    assert_eq!(waiting(&mut listen(&live, Resume::After(5))), Vec::<String>::new());
}

#[test]
fn who_missed_more_than_is_kept_is_told_to_reload() {
    let live = Live::default();
    let mut ann = listen(&live, Resume::Afresh);
    for number in 1..=(RING as u64 + 2) {
        live.publish(vec![whole("a", &number.to_string())], at(number * 1000));
        waiting(&mut ann);
    }

    // Number 1 and 2 are gone: who has seen 2 misses nothing that is gone, who has seen 1 does.
    assert_eq!(waiting(&mut listen(&live, Resume::After(2))).len(), RING);
    assert_eq!(waiting(&mut listen(&live, Resume::After(1)))[0], "reload");
    assert_eq!(waiting(&mut listen(&live, Resume::After(9_999)))[0], "reload");
    assert_eq!(waiting(&mut listen(&live, Resume::Elsewhere)), ["reload", "a=1002"]);
}

#[test]
fn pages_get_only_the_regions_that_they_have() {
    let live = Live::default();
    let mut settings = live.subscribe("ann", Page::Other, Resume::Afresh).unwrap();
    let everywhere = Region { audience: Audience::Everywhere, ..whole("status", "fine") };

    live.publish(vec![whole("a", "1"), everywhere], at(0));

    assert_eq!(waiting(&mut settings), ["status=fine"]);
    let mut late = live.subscribe("ann", Page::Other, Resume::Afresh).unwrap();
    assert_eq!(waiting(&mut late), ["status=fine"]);
    let mut back = live.subscribe("ann", Page::Other, Resume::After(0)).unwrap();
    assert_eq!(waiting(&mut back), ["status=fine"]);
}

#[test]
fn one_slow_listener_of_fifty_is_dropped_and_holds_nobody_back() {
    let live = Live::default();
    let identity = |number: usize| format!("user-{number}");
    let mut all: Vec<Subscription> = (0..50)
        .map(|number| live.subscribe(&identity(number), Page::Overview, Resume::Afresh).unwrap())
        .collect();
    let mut slow = all.pop().unwrap();
    let count = CHANNEL as u64 + 50;

    for number in 1..=count {
        live.publish(vec![whole("a", &number.to_string())], at(number * 1000));
        for quick in &mut all {
            assert_eq!(waiting(quick), [format!("a={number}")]);
        }
    }

    assert_eq!(live.listeners(), 49);
    let seen = waiting(&mut slow);
    assert_eq!(seen.len(), CHANNEL + 1);
    assert_eq!(seen[CHANNEL], "end");
    // It comes back and gets the rest, so nothing is lost by having been slow.
    assert_eq!(waiting(&mut listen(&live, Resume::After(CHANNEL as u64))).len(), 50);
}

#[test]
fn nobody_can_open_more_streams_than_allowed() {
    let live = Live::default();
    let subscribe = |identity: &str| live.subscribe(identity, Page::Overview, Resume::Afresh);

    let mut ann: Vec<_> = (0..STREAMS_PER_IDENTITY).map(|_| subscribe("ann").unwrap()).collect();
    assert_eq!(subscribe("ann").unwrap_err(), SubscribeError::OwnLimit);
    let others: Vec<_> =
        (0..STREAMS - STREAMS_PER_IDENTITY).map(|number| subscribe(&format!("u{number}")).unwrap()).collect();
    assert_eq!(subscribe("bob").unwrap_err(), SubscribeError::Limit);

    ann.pop();
    assert!(subscribe("bob").is_ok());
    drop(others);
}

#[test]
fn closing_ends_every_stream_and_lets_none_begin() {
    let live = Live::default();
    let mut ann = listen(&live, Resume::Afresh);

    live.close();

    assert_eq!(waiting(&mut ann), ["end"]);
    assert_eq!(live.subscribe("ann", Page::Overview, Resume::Afresh).unwrap_err(), SubscribeError::Closed);
}

#[tokio::test]
async fn after_a_time_without_listeners_everything_is_shown_again() {
    let live = Live::default();
    let ann = listen(&live, Resume::Afresh);
    live.publish(vec![whole("a", "1")], at(0));
    drop(ann);
    let idle = tokio::spawn({
        let live = live.clone();
        async move { live.wait_for_listener().await }
    });
    tokio::task::yield_now().await;

    let mut bob = listen(&live, Resume::Afresh);
    idle.await.unwrap();
    live.publish(vec![whole("a", "1")], at(10));

    assert_eq!(waiting(&mut bob), ["a=1"]);
}

#[test]
fn the_regions_of_a_page_that_nobody_looks_at_any_more_are_forgotten() {
    let live = Live::default();
    let page =
        |id| Page::Render(tidemill_domain::render::RenderId::new(id), crate::dashboard::region::Buttons::On);
    let only = |id| Region { audience: Audience::At(page(id)), ..whole(&format!("r{id}"), "1") };
    let mut ann = listen(&live, Resume::Afresh);
    let mut bob = live.subscribe("bob", page(7), Resume::Afresh).unwrap();
    assert_eq!(live.particular_pages(), [page(7)]);

    live.publish(vec![whole("a", "1"), only(7), only(8)], at(0));
    assert_eq!((waiting(&mut ann), waiting(&mut bob)), (vec!["a=1".to_owned()], vec!["r7=1".to_owned()]));
    assert_eq!(live.hub().shown.keys().collect::<Vec<_>>(), ["a", "render:7:on r7"]);

    drop(bob);
    live.publish(vec![whole("a", "1")], at(1000));
    assert_eq!(live.hub().shown.keys().collect::<Vec<_>>(), ["a"]);
}
