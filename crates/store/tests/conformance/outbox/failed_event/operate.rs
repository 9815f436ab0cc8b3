//! What people see of failed events, and what they may do with them.

use super::{all, block, due, except, ids, new, settle, states, waiting, write};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::outbox::failed_event::{
    Edit, FailedEventRefusal, FailedEventState, Redirect, StateWord, Verb,
};
use tidemill_domain::outbox::{Count, EventId, Payload, Slot};
use tidemill_store::audit::AuditFilter;
use tidemill_store::outbox::failed_event::{FailedEventFilter, Operation, OperationResult, Selection};
use tidemill_store::wakeup::Woken;

crate::on_both![
    lists_are_filtered_as_the_rule_says_and_come_in_pages,
    a_skipped_event_lets_the_next_one_go,
    a_replayed_event_is_due_at_once_and_does_not_overtake,
    an_edited_event_is_published_as_edited,
    a_redirected_event_goes_elsewhere,
    an_order_about_all_goes_page_by_page,
    every_change_leaves_an_audit_entry_and_wakes_the_relays,
    an_event_that_is_gone_can_only_be_skipped,
];

pub(super) fn ann() -> Actor {
    Actor { name: "ann".into(), role: Role::Operator, request_id: Some("r7".into()) }
}

pub(super) async fn operate(
    bench: &Bench,
    selection: &Selection,
    verb: &Verb,
    limit: u32,
) -> OperationResult {
    let mut tx = bench.begin().await;
    let operation = Operation { verb, actor: &ann(), reason: "it was asked for", limit };
    let operated = tx.outbox().operate(selection, &operation).await.unwrap();
    tx.commit().await.unwrap();
    operated
}

pub(super) async fn order(bench: &Bench, id: i64, verb: Verb) -> Result<(), FailedEventRefusal> {
    let operated = operate(bench, &Selection::One(EventId::new(id)), &verb, 10).await;
    assert_eq!(operated.next, None);
    match (operated.changed.as_slice(), operated.refused.as_slice()) {
        ([changed], []) => {
            assert_eq!(changed.get(), id);
            Ok(())
        }
        ([], [(refused, refusal)]) => {
            assert_eq!(refused.get(), id);
            Err(*refusal)
        }
        _ => panic!("{operated:?}"),
    }
}

pub(super) fn edit(payload: &str) -> Verb {
    Verb::Edit(Edit::new(Some(Payload::Json(payload.into())), None).unwrap())
}

fn redirect(topic: &str) -> Verb {
    Verb::Redirect(Redirect::new(topic).unwrap())
}

async fn lists_are_filtered_as_the_rule_says_and_come_in_pages(bench: Bench) {
    write(&bench, &["a", "a", "b", "c", "d"]).await;
    block(&bench, "a", &[1, 2]).await;
    except(&bench, &[new(3, "b", FailedEventState::Parked), new(4, "c", FailedEventState::Skipped)]).await;
    let mut other = new(5, "d", FailedEventState::Parked);
    (other.event_type, other.error) = ("order.sent".into(), Some("100% {no}_".into()));
    except(&bench, &[other]).await;
    order(&bench, 3, redirect("elsewhere")).await.unwrap();
    let everything = all(&bench).await;
    let base = FailedEventFilter::default();
    let text = |text: &str| Some(text.to_owned());
    let filters = [
        (FailedEventFilter { states: vec![StateWord::Parked], ..base.clone() }, vec![5]),
        (FailedEventFilter { states: StateWord::OPEN.into(), ..base.clone() }, vec![1, 2, 3, 5]),
        (FailedEventFilter { slot: Some(Slot::of("a")), ..base.clone() }, vec![1, 2]),
        (FailedEventFilter { aggregate_type: text("order"), ..base.clone() }, vec![1, 2, 3, 4, 5]),
        (FailedEventFilter { aggregate_type: text("cart"), ..base.clone() }, vec![]),
        (FailedEventFilter { aggregate_id: text("c"), ..base.clone() }, vec![4]),
        (FailedEventFilter { topic: text("elsewhere"), ..base.clone() }, vec![3]),
        (FailedEventFilter { topic: text("orders"), ..base.clone() }, vec![1, 2, 4, 5]),
        (FailedEventFilter { event_type: text("order.sent"), ..base.clone() }, vec![5]),
        (FailedEventFilter { error_contains: text("% {no}_"), ..base.clone() }, vec![5]),
        (FailedEventFilter { error_contains: text("says no"), ..base.clone() }, vec![1, 3, 4]),
    ];

    let mut tx = bench.store.read().await.unwrap();
    for (filter, expected) in filters {
        let found = tx.outbox().failed_events(&filter, EventId::ZERO, 100).await.unwrap();
        assert_eq!(found.iter().map(|one| one.id.get()).collect::<Vec<_>>(), expected, "{filter:?}");
        let by_rule = everything.iter().filter(|one| filter.matches(one)).cloned();
        assert_eq!(found, by_rule.collect::<Vec<_>>(), "{filter:?}");
        let (count, most) = (expected.len() as u64, 2);
        assert_eq!(tx.outbox().count_failed_events(&filter, 100).await.unwrap(), Count::Exactly(count));
        assert_eq!(
            tx.outbox().count_failed_events(&filter, most).await.unwrap(),
            Count::up_to(most.into(), count)
        );
    }
    let page = tx.outbox().failed_events(&base, EventId::ZERO, 2).await.unwrap();
    let next = tx.outbox().failed_events(&base, page[1].id, 10).await.unwrap();
    assert_eq!([page, next].concat(), everything);
}

async fn a_skipped_event_lets_the_next_one_go(bench: Bench) {
    write(&bench, &["a", "a", "a"]).await;
    block(&bench, "a", &[1, 2, 3]).await;

    // One in the middle, then the first.
    order(&bench, 2, Verb::Skip).await.unwrap();
    assert_eq!(states(&bench).await, [(1, "waiting"), (2, "skipped"), (3, "held")]);
    order(&bench, 1, Verb::Skip).await.unwrap();

    assert_eq!(states(&bench).await, [(1, "skipped"), (2, "skipped"), (3, "waiting")]);
    assert_eq!(ids(&due(&bench, 10, 10).await), [3]);
    for verb in [Verb::Skip, Verb::Replay, edit("{}"), redirect("x")] {
        assert_eq!(order(&bench, 1, verb).await, Err(FailedEventRefusal::Skipped));
    }
}

async fn a_replayed_event_is_due_at_once_and_does_not_overtake(bench: Bench) {
    write(&bench, &["a", "a"]).await;
    block(&bench, "a", &[1, 2]).await;
    let found = due(&bench, 10, 10).await;
    settle(&bench, &[super::refused(&found.events[0], FailedEventState::Parked)]).await;

    assert_eq!(
        order(&bench, 2, Verb::Replay).await,
        Err(FailedEventRefusal::Behind { head: EventId::new(1) })
    );
    assert!(due(&bench, 10, 10).await.events.is_empty());
    bench.advance(Duration::from_secs(1));
    order(&bench, 1, Verb::Replay).await.unwrap();

    let replayed = due(&bench, 10, 10).await;
    assert_eq!(ids(&replayed), [1, 2]);
    assert_eq!((replayed.events[0].attempts, replayed.events[0].revision), (0, 2));
    assert_eq!(all(&bench).await[0].failed_event.state, waiting(bench.now()));
    assert_eq!(order(&bench, 99, Verb::Replay).await, Err(FailedEventRefusal::Unknown));
}

async fn an_edited_event_is_published_as_edited(bench: Bench) {
    write(&bench, &["a", "a"]).await;
    block(&bench, "a", &[1, 2]).await;

    order(&bench, 1, edit("{\"n\": 7}")).await.unwrap();
    let one = due(&bench, 10, 10).await.events.remove(0);
    let headers = Verb::Edit(Edit::new(None, Some([("k".to_owned(), "v".to_owned())].into())).unwrap());
    order(&bench, 1, headers).await.unwrap();
    let two = due(&bench, 10, 10).await.events.remove(0);
    let bytes = Edit::new(Some(Payload::Bytes(vec![0, 255])), Some([].into())).unwrap();
    order(&bench, 1, Verb::Edit(bytes)).await.unwrap();
    let three = due(&bench, 10, 10).await.events.remove(0);
    order(&bench, 1, Verb::Edit(Edit::new(Some(Payload::Tombstone), None).unwrap())).await.unwrap();
    let four = due(&bench, 10, 10).await.events.remove(0);
    // Behind another one: what it says changes, its turn does not.
    order(&bench, 2, edit("[]")).await.unwrap();
    let five = due(&bench, 10, 10).await.events.remove(1);

    assert_eq!((one.payload, one.headers["trace"].as_str()), (Payload::Json("{\"n\": 7}".into()), "t"));
    assert_eq!(
        (two.payload, two.headers),
        (Payload::Json("{\"n\": 7}".into()), [("k".into(), "v".into())].into())
    );
    assert_eq!((three.payload, three.headers.len()), (Payload::Bytes(vec![0, 255]), 0));
    assert_eq!((four.payload, four.headers.len(), four.revision), (Payload::Tombstone, 0, 4));
    assert_eq!((five.payload, five.attempts), (Payload::Json("[]".into()), 0));
    assert_eq!(states(&bench).await, [(1, "waiting"), (2, "held")]);
    let records = all(&bench).await;
    assert!(
        records[0].is_edited && !records[0].is_redirected && records[0].topic.as_deref() == Some("orders")
    );
}

async fn a_redirected_event_goes_elsewhere(bench: Bench) {
    write(&bench, &["a", "a"]).await;
    except(&bench, &[new(1, "a", FailedEventState::Parked), new(2, "a", FailedEventState::Held)]).await;

    order(&bench, 2, redirect("late")).await.unwrap();
    order(&bench, 1, redirect("elsewhere")).await.unwrap();

    let found = due(&bench, 10, 10).await;
    let topics: Vec<&str> = found.events.iter().map(|event| event.topic.as_str()).collect();
    assert_eq!((ids(&found), topics), (vec![1, 2], vec!["elsewhere", "late"]));
    assert!(found.events.iter().all(|event| event.is_redirected));
    assert_eq!(found.events[0].payload, Payload::Json("{\"n\":1}".into()));
    let records = all(&bench).await;
    assert!(records[0].is_redirected && !records[0].is_edited);
}

async fn an_order_about_all_goes_page_by_page(bench: Bench) {
    write(&bench, &["a", "b", "c", "d", "d", "e"]).await;
    let parked = |id, aggregate| new(id, aggregate, FailedEventState::Parked);
    except(&bench, &[parked(1, "a"), parked(2, "b"), parked(3, "c"), parked(4, "d"), parked(6, "e")]).await;
    except(&bench, &[new(5, "d", FailedEventState::Held)]).await;
    let filter = FailedEventFilter { topic: Some("orders".into()), ..FailedEventFilter::default() };
    order(&bench, 2, redirect("elsewhere")).await.unwrap();

    let (mut after, mut changed, mut pages) = (EventId::ZERO, Vec::new(), 0);
    loop {
        let selection = Selection::Matching { filter: filter.clone(), after };
        let operated = operate(&bench, &selection, &Verb::Replay, 2).await;
        assert!(operated.refused.is_empty() && operated.changed.len() <= 2);
        changed.extend(operated.changed.iter().map(|id| id.get()));
        pages += 1;
        let Some(next) = operated.next else { break };
        after = next;
    }

    // The held one is passed over: it follows the one before it.
    assert_eq!((changed, pages), (vec![1, 3, 4, 6], 2));
    let selected = Selection::Selected([6, 99, 5, 6].map(EventId::new).into());
    let operated = operate(&bench, &selected, &Verb::Replay, 10).await;
    assert_eq!(operated.changed, [EventId::new(6)]);
    let head = EventId::new(4);
    let refused = [
        (EventId::new(5), FailedEventRefusal::Behind { head }),
        (EventId::new(99), FailedEventRefusal::Unknown),
    ];
    assert_eq!(operated.refused, refused);
    let skipped = Selection::Matching { filter: FailedEventFilter::default(), after: EventId::ZERO };
    assert_eq!(operate(&bench, &skipped, &Verb::Skip, 100).await.changed.len(), 6);
    assert!(states(&bench).await.iter().all(|(_, state)| *state == "skipped"));
    assert_eq!(operate(&bench, &skipped, &Verb::Skip, 100).await, OperationResult::default());
}

async fn every_change_leaves_an_audit_entry_and_wakes_the_relays(bench: Bench) {
    write(&bench, &["a", "b", "b"]).await;
    except(&bench, &[new(1, "a", FailedEventState::Parked), new(2, "b", FailedEventState::Parked)]).await;
    except(&bench, &[new(3, "b", FailedEventState::Held)]).await;
    let mut wakeup = bench.store.wakeup("outbox");

    let selected = Selection::Selected([1, 2, 99].map(EventId::new).into());
    let _partly = operate(&bench, &selected, &Verb::Replay, 10).await;
    assert_eq!(wakeup.wait(Duration::from_secs(5)).await, Woken::Called);
    order(&bench, 3, Verb::Replay).await.unwrap_err();

    let mut tx = bench.store.read().await.unwrap();
    let filter = AuditFilter { action: Some("event.replay".into()), ..AuditFilter::default() };
    let entries = tx.audit().entries(&filter, 10).await.unwrap();
    let objects: Vec<&str> = entries.iter().map(|one| one.entry.object.as_str()).collect();
    assert_eq!(objects, ["event/2", "event/1"]);
    let first = &entries[1];
    assert_eq!((first.at, &first.entry.actor), (bench.now(), &ann()));
    assert_eq!((first.entry.from.as_deref(), first.entry.to.as_deref()), (Some("parked"), Some("waiting")));
    assert_eq!(first.entry.reason.as_deref(), Some("it was asked for"));
}

async fn an_event_that_is_gone_can_only_be_skipped(bench: Bench) {
    write(&bench, &["a"]).await;
    except(&bench, &[new(1, "a", FailedEventState::Parked)]).await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("delete from outbox_event").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(order(&bench, 1, edit("{}")).await, Err(FailedEventRefusal::Gone));
    assert_eq!(order(&bench, 1, Verb::Skip).await, Ok(()));
    let mut tx = bench.store.read().await.unwrap();
    assert!(tx.outbox().failed_event(EventId::new(1)).await.unwrap().unwrap().content.is_none());
}
