//! What the dashboard shows: what is at work, what waits and in which order, what has ended last, and what was searched
//! for. With a long history each is found by an index.

use super::{MINUTE, bring_to, claim, claim_by, find, new_render, ordered, say, submit};
use crate::event_recorder::{EventRecorder, explaining, reads_a_whole_table};
use crate::{Bench, plan};
use std::time::Duration;
use tidemill_domain::render::{Failure, Phase, RenderId, Status, Trouble, Work};
use tidemill_store::render::{NewRender, RenderFilter, RenderRecord};
use tidemill_store::scratch::in_sqlite;

crate::on_both![
    what_is_at_work_and_what_ended_last_is_listed,
    what_waits_is_listed_in_the_order_of_claims_with_how_many_are_before_it,
    what_is_late_and_what_failed_lately_is_found,
    renders_are_found_by_a_text_among_the_newest,
    the_pace_is_the_average_of_the_newest_that_were_completed,
];

fn ids(records: &[RenderRecord]) -> Vec<RenderId> {
    records.iter().map(RenderRecord::id).collect()
}

async fn what_is_at_work_and_what_ended_last_is_listed(bench: Bench) {
    let first = bring_to(&bench, Phase::Publishing).await;
    let second = bring_to(&bench, Phase::Rendering).await;
    let running = bring_to(&bench, Phase::Encoding).await.record.id();
    say(&bench, &second, Work::Failed(Trouble::new(Failure::TemplateMissing, "gone"))).await;
    bench.advance(MINUTE / 4);
    say(&bench, &first, Work::Published).await;
    ordered(&bench).await;
    let mut tx = bench.begin().await;

    assert_eq!(ids(&tx.renders().at_work(9).await.unwrap()), [running]);
    assert_eq!(ids(&tx.renders().ended(9).await.unwrap()), [first.record.id(), second.record.id()]);
    assert_eq!(ids(&tx.renders().ended(1).await.unwrap()), [first.record.id()]);
    assert_eq!(tx.renders().at_work(0).await.unwrap(), []);
}

async fn what_waits_is_listed_in_the_order_of_claims_with_how_many_are_before_it(bench: Bench) {
    let at = |minutes: u32| Some(find_now(&bench).plus(MINUTE * minutes));
    let plain = ordered(&bench).await;
    let late = submit(&bench, &NewRender { deadline: at(90), ..new_render() }).await.id();
    let soon = submit(&bench, &NewRender { deadline: at(30), ..new_render() }).await.id();
    let urgent = submit(&bench, &NewRender { priority: 5, ..new_render() }).await.id();
    let also_plain = ordered(&bench).await;
    let same = submit(&bench, &NewRender { deadline: at(30), ..new_render() }).await.id();
    let put_off = claim(&bench, 1).await;
    assert_eq!(put_off.record.id(), urgent);
    say(&bench, &put_off, Work::Failed(Trouble::new(Failure::NexrenderDown, "down"))).await;

    let waiting = bench.begin().await.renders().waiting(9).await.unwrap();

    assert_eq!(ids(&waiting), [urgent, soon, same, late, plain, also_plain]);
    let mut ahead = Vec::new();
    for record in &waiting {
        ahead.push(bench.begin().await.renders().ahead(record, 100).await.unwrap());
    }
    // What is put off is before nobody.
    assert_eq!(ahead, [0, 0, 1, 2, 3, 4]);
    let last = find(&bench, also_plain).await;
    assert_eq!(bench.begin().await.renders().ahead(&last, 2).await.unwrap(), 2);
    let claimed = claim_by(&bench.store, 1, 9).await.claimed;
    let order: Vec<RenderId> = claimed.iter().map(|claimed| claimed.record.id()).collect();
    assert_eq!(order, [soon, same, late, plain, also_plain], "the order is that of claims");
}

fn find_now(bench: &Bench) -> tidemill_domain::time::Timestamp {
    use tidemill_domain::time::Clock;
    bench.clock.now()
}

async fn renders_are_found_by_a_text_among_the_newest(bench: Bench) {
    let named = |composition: &str, cue: &str| NewRender {
        composition: Some(composition.to_owned()),
        cue_item: Some(cue.to_owned()),
        ..new_render()
    };
    let chips = submit(&bench, &named("Chip Count", "cue-1")).await.id();
    let table = submit(&bench, &named("100%_Table", "CUE-2")).await.id();
    say(&bench, &claim(&bench, 1).await, Work::Failed(Trouble::new(Failure::TemplateMissing, "It Broke")))
        .await;
    let bare = submit(&bench, &NewRender { composition: None, ..new_render() }).await.id();
    let search = async |text: Option<&str>, filter: &RenderFilter, before| {
        let mut tx = bench.begin().await;
        let found = tx.renders().search(filter, text, before, 9).await.unwrap();
        assert_eq!(found.searched_to, None, "there are not that many");
        ids(&found.records)
    };
    let any = RenderFilter::default();

    assert_eq!(search(Some("CHIP"), &any, None).await, [chips]);
    assert_eq!(search(Some("cue-"), &any, None).await, [table, chips]);
    assert_eq!(search(Some("it broke"), &any, None).await, [chips]);
    // Nothing in it means anything but itself.
    assert_eq!(search(Some("%"), &any, None).await, [table]);
    assert_eq!(search(Some("C_ip"), &any, None).await, []);
    assert_eq!(search(Some("'; drop"), &any, None).await, []);
    assert_eq!(search(None, &any, Some(bare)).await, [table, chips]);
    let failed = RenderFilter { status: Some(Status::Failed), ..any };
    assert_eq!(search(Some("c"), &failed, None).await, [chips]);
}

async fn what_is_late_and_what_failed_lately_is_found(bench: Bench) {
    let deadline = Some(find_now(&bench).plus(Duration::from_secs(60)));
    let due = submit(&bench, &NewRender { deadline, ..new_render() }).await.id();
    let failed = claim(&bench, 1).await;
    say(&bench, &failed, Work::Failed(Trouble::new(Failure::TemplateMissing, "gone"))).await;
    let waits = submit(&bench, &NewRender { deadline, ..new_render() }).await.id();
    let plain = submit(&bench, &new_render()).await.id();
    let found = async |filter: &RenderFilter| {
        ids(&bench.begin().await.renders().list(filter, None, 9).await.unwrap())
    };
    let late = |at| RenderFilter { late_at: Some(at), ..RenderFilter::default() };
    let ended = |at| RenderFilter { ended_after: Some(at), ..RenderFilter::default() };

    assert_eq!(found(&late(find_now(&bench))).await, []);
    let before = find_now(&bench).minus(Duration::from_secs(1));
    assert_eq!((found(&ended(before)).await, found(&ended(find_now(&bench))).await), (vec![due], vec![]));
    bench.advance(Duration::from_secs(60));
    assert_eq!(found(&late(find_now(&bench))).await, [waits], "{plain} has no deadline, {due} has ended");
    let metrics = bench.begin().await.renders().metrics().await.unwrap();
    assert_eq!((metrics.late, metrics.failed), (1, 1), "as the overview counts");
}

async fn the_pace_is_the_average_of_the_newest_that_were_completed(bench: Bench) {
    assert_eq!(bench.begin().await.renders().pace().await.unwrap(), None);

    for seconds in [10, 50] {
        let claimed = bring_to(&bench, Phase::Publishing).await;
        bench.advance(Duration::from_secs(seconds));
        say(&bench, &claimed, Work::Published).await;
    }

    assert_eq!(bench.begin().await.renders().pace().await.unwrap(), Some(Duration::from_secs(30)));
}

/// A long history, and a few that are not part of it.
const FILL: &str = "
    insert into render_queue (composition_id, gfx_data, status, ended_at, duration_seconds, error_message)
    select 'C' || e % 7, '{}', case when e % 9 = 0 then 'failed' else 'completed' end, now() - e * interval '1 minute', 9,
           'no such template ' || e
    from generate_series(1, 30000) as e;
    insert into render_queue (composition_id, gfx_data, priority)
    select 'C' || e % 7, '{}', e % 3
    from generate_series(1, 3000) as e;
    analyze render_queue";

async fn look_at_everything(bench: &Bench) {
    let mut tx = bench.begin().await;
    tx.renders().at_work(200).await.unwrap();
    let waiting = tx.renders().waiting(50).await.unwrap();
    assert_eq!(waiting.len(), 50);
    assert_eq!(tx.renders().ended(20).await.unwrap().len(), 20);
    tx.renders().ahead(&waiting[49], 1_000).await.unwrap();
    tx.renders().pace().await.unwrap();
    let nothing = tx.renders().search(&RenderFilter::default(), Some("nowhere"), None, 50).await.unwrap();
    assert_eq!(nothing.records, []);
    assert!(nothing.searched_to.is_some(), "not all of them were looked at");
    let failed = RenderFilter { status: Some(Status::Failed), ..RenderFilter::default() };
    let found = tx.renders().search(&failed, Some("template 9"), None, 5).await.unwrap();
    assert_eq!(found.records.len(), 5);
}

#[tokio::test]
async fn no_page_of_renders_on_postgresql_reads_a_whole_history() {
    let Some(bench) = Bench::postgres().await else { return };
    super::execute(&bench, FILL).await;
    let (explaining, told) = (explaining(&bench).await, EventRecorder::default());
    let listening = told.listen();

    look_at_everything(&explaining).await;

    drop(listening);
    let plans = told.messages();
    let is_one = |table: &str| table == "render_queue";
    let scans: Vec<&String> = plans.iter().filter(|plan| reads_a_whole_table(plan, is_one)).collect();
    assert!(scans.is_empty(), "{scans:#?}");
    let is_about = |plan: &&String| plan.contains("\"Relation Name\": \"render_queue\"");
    assert!(plans.iter().filter(is_about).count() >= 9, "too few plans: {plans:#?}");
}

/// Every statement that is made by the macro for renders: with its index, if it names one.
fn statements() -> Vec<String> {
    let source = include_str!("../../../src/render/list.rs");
    let uses = source.split("        renders!(").skip(1);
    let statement = |used: &str| {
        let end = used.split("\n    }").next().unwrap();
        let hint = |index: &str| format!("{{indexed by {index}}}");
        let (hint, which) = match end.split('"').skip(1).step_by(2).collect::<Vec<_>>()[..] {
            [index, which] => (hint(index), which),
            [which] => (String::new(), which),
            _ => panic!("{used}"),
        };
        in_sqlite(&format!("select id, gfx_hash from render_queue {hint} {which}"))
    };
    uses.map(statement).collect()
}

#[tokio::test]
async fn no_page_of_renders_on_sqlite_reads_or_sorts_a_whole_history() {
    let bench = Bench::sqlite().await;
    let statements = statements();
    assert!(statements.len() >= 8, "{statements:#?}");
    let is_whole = |statement: &str, line: &str| {
        // The few that are at work are sorted; what is listed is read from its end.
        let is_at_work = statement.contains("'preparing', 'rendering'") && !statement.contains("'cancelled'");
        let is_of_few = is_at_work || statement.contains("indexed by render_queue_lease");
        (line.contains("TEMP B-TREE") && !is_of_few)
            || (plan::scanned(line).is_some() && !line.contains(" USING "))
    };

    assert_eq!(plan::scans(&bench, &statements, is_whole).await, Vec::<String>::new());
    let planted = ["select id from render_queue where error_message = 'x' order by updated_at".to_owned()];
    assert_eq!(plan::scans(&bench, &planted, is_whole).await.len(), 1, "a planted fault is not found");
}
