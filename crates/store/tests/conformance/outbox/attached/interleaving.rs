//! Transactions that overlap on an attached table, stepped by hand. In each play the product has to be right: nothing lost,
//! the rows of an aggregate whose writers take turns in causal order, and no standing still while somebody writes. The
//! schemes beside it are caught in the plays that they are known to fail.

use super::scene::{Scene, Theatre, commit_next, next};
use super::scheme::Scheme;
use crate::dice::{Dice, repeat, seed};
use crate::outbox::stage::{INVERTS, LOSES, RIGHT, STALLS, Verdict};
use std::collections::BTreeSet;

/// What is expected of the naive schemes; the product is always right.
struct Expected {
    after_last: Verdict,
    gapless: Verdict,
    pending: Verdict,
    by_time: Verdict,
    behind_open: Verdict,
}

const ALL_RIGHT: Expected =
    Expected { after_last: RIGHT, gapless: RIGHT, pending: RIGHT, by_time: RIGHT, behind_open: RIGHT };

async fn check(expected: &Expected, play: impl AsyncFn(&mut Scene)) {
    let Some(mut theatre) = Theatre::open().await else { return };
    check_in(&mut theatre, expected, "", play).await;
}

async fn check_in(theatre: &mut Theatre, expected: &Expected, when: &str, play: impl AsyncFn(&mut Scene)) {
    check_of(&Scheme::ALL, theatre, expected, when, play).await;
}

async fn check_of(
    schemes: &[Scheme],
    theatre: &mut Theatre,
    expected: &Expected,
    when: &str,
    play: impl AsyncFn(&mut Scene),
) {
    for scheme in schemes.iter().copied() {
        let verdict = theatre.give(scheme, &play).await;
        let expected = match scheme {
            Scheme::BySlot => RIGHT,
            Scheme::AfterLast => expected.after_last,
            Scheme::Gapless => expected.gapless,
            Scheme::Pending => expected.pending,
            Scheme::ByTime => expected.by_time,
            Scheme::BehindOpen => expected.behind_open,
        };
        assert_eq!(verdict, expected, "{scheme:?} {when}");
    }
}

#[tokio::test]
async fn a_slow_transaction_with_the_lower_number_is_not_lost() {
    let expected = Expected { after_last: LOSES, gapless: STALLS, ..ALL_RIGHT };
    check(&expected, async |scene: &mut Scene| {
        let (mut slow, mut quick) = (scene.writer().await, scene.writer().await);
        slow.begin().await;
        next(&mut slow, "a").await;
        commit_next(&mut quick, "b").await;
        scene.read().await;
        slow.commit().await;
    })
    .await;
}

#[tokio::test]
async fn who_wrote_elsewhere_before_the_lock_does_not_overtake_wherever_is_read() {
    let Some(mut theatre) = Theatre::open().await else { return };
    // Each bit is a place in the play at which everybody reads.
    for places in 0..32_u32 {
        let is_read_in_between = places & (4 | 8 | 16) != 0;
        let expected = Expected { by_time: if is_read_in_between { RIGHT } else { INVERTS }, ..ALL_RIGHT };
        let when = format!("when read at the places {places:05b}");
        // The others know nothing of who began when.
        let schemes = if places == 0 { &Scheme::ALL[..] } else { &[Scheme::BySlot, Scheme::ByTime] };
        check_of(schemes, &mut theatre, &expected, &when, async |scene: &mut Scene| {
            let (mut early, mut late) = (scene.writer().await, scene.writer().await);
            early.begin().await;
            early.write_elsewhere().await;
            read_if(scene, places & 1).await;
            late.begin().await;
            next(&mut late, "a").await;
            read_if(scene, places & 2).await;
            late.commit().await;
            read_if(scene, places & 4).await;
            early.lock("a").await;
            read_if(scene, places & 8).await;
            next(&mut early, "a").await;
            read_if(scene, places & 16).await;
            early.commit().await;
        })
        .await;
    }
}

async fn read_if(scene: &mut Scene, place: u32) {
    if place != 0 {
        scene.read().await;
    }
}

#[tokio::test]
async fn a_writer_that_takes_long_is_heard_in_the_end_and_nobody_waits_for_it() {
    let expected = Expected { after_last: LOSES, gapless: STALLS, ..ALL_RIGHT };
    check(&expected, async |scene: &mut Scene| {
        let (mut long, mut quick) = (scene.writer().await, scene.writer().await);
        long.begin().await;
        next(&mut long, "a").await;
        for round in 0..10 {
            for _ in 0..round {
                commit_next(&mut quick, "b").await;
            }
            commit_next(&mut quick, &format!("c{round}")).await;
            scene.read().await;
        }
        next(&mut long, "a").await;
        long.commit().await;
    })
    .await;
}

#[tokio::test]
async fn a_writer_that_takes_long_and_comes_to_nothing_holds_nobody_up() {
    check(&Expected { gapless: LOSES, ..ALL_RIGHT }, async |scene: &mut Scene| {
        let (mut long, mut quick) = (scene.writer().await, scene.writer().await);
        long.begin().await;
        next(&mut long, "a").await;
        for _ in 0..5 {
            commit_next(&mut quick, "b").await;
            scene.read().await;
        }
        long.rollback().await;
        commit_next(&mut quick, "a").await;
        scene.read().await;
    })
    .await;
}

#[tokio::test]
async fn of_savepoints_only_what_was_kept_is_heard() {
    let expected = Expected { after_last: LOSES, gapless: LOSES, ..ALL_RIGHT };
    check(&expected, async |scene: &mut Scene| {
        let (mut saving, mut quick) = (scene.writer().await, scene.writer().await);
        saving.begin().await;
        saving.run("savepoint one").await;
        next(&mut saving, "a").await;
        saving.run("savepoint two").await;
        next(&mut saving, "a").await;
        next(&mut saving, "d").await;
        commit_next(&mut quick, "b").await;
        scene.read().await;
        saving.run("rollback to savepoint two").await;
        // Its lock is gone with the savepoint, so others have their turn first.
        commit_next(&mut quick, "d").await;
        scene.read().await;
        next(&mut saving, "d").await;
        saving.run("savepoint three").await;
        next(&mut saving, "a").await;
        saving.run("release savepoint three").await;
        saving.run("release savepoint one").await;
        scene.read().await;
        next(&mut saving, "e").await;
        saving.commit().await;
    })
    .await;
}

#[tokio::test]
async fn numbers_of_aborted_writers_are_not_waited_for() {
    check(&Expected { gapless: LOSES, ..ALL_RIGHT }, async |scene: &mut Scene| {
        let (mut one, mut two) = (scene.writer().await, scene.writer().await);
        for round in 0..20 {
            one.begin().await;
            next(&mut one, "a").await;
            if round % 3 == 0 {
                one.commit().await
            } else {
                one.rollback().await
            }
            commit_next(&mut two, "a").await;
            if round % 4 == 0 {
                scene.read().await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn two_instances_of_different_speed_do_not_share_an_aggregate() {
    let expected =
        Expected { after_last: INVERTS, gapless: INVERTS, pending: INVERTS, by_time: INVERTS, ..ALL_RIGHT };
    check(&expected, async |scene: &mut Scene| {
        let mut writer = scene.writer().await;
        commit_next(&mut writer, "a").await;
        commit_next(&mut writer, "a").await;
        for (slow, quick) in [(0, 1), (1, 0)] {
            scene.claim(slow, 1).await;
            scene.claim(quick, 1).await;
            scene.publish(quick).await;
            scene.publish(slow).await;
        }
    })
    .await;
}

#[tokio::test]
async fn whatever_is_behind_a_row_that_has_failed_waits_for_it() {
    let expected =
        Expected { after_last: LOSES, gapless: LOSES, pending: INVERTS, by_time: INVERTS, ..ALL_RIGHT };
    check(&expected, async |scene: &mut Scene| {
        let mut writer = scene.writer().await;
        commit_next(&mut writer, "a").await;
        for instance in [0, 1] {
            scene.claim(instance, 1).await;
            scene.refuse(instance).await;
        }
        commit_next(&mut writer, "a").await;
        commit_next(&mut writer, "b").await;
        scene.drain().await;
        assert!(scene.heard.iter().any(|heard| heard.aggregate == "b"), "nobody else is held up");
        scene.replay().await;
    })
    .await;
}

#[tokio::test]
async fn a_row_that_somebody_has_locked_is_not_overtaken() {
    let expected = Expected { pending: INVERTS, by_time: INVERTS, behind_open: INVERTS, ..ALL_RIGHT };
    check(&expected, async |scene: &mut Scene| {
        let (mut writer, mut editor) = (scene.writer().await, scene.writer().await);
        commit_next(&mut writer, "a").await;
        commit_next(&mut writer, "a").await;
        commit_next(&mut writer, "b").await;
        editor.begin().await;
        editor.run("select from transfer_events where event_id = 1 for update").await;
        scene.drain().await;
        assert!(scene.heard.iter().any(|heard| heard.aggregate == "b"), "nobody else is held up");
        editor.commit().await;
    })
    .await;
}

#[tokio::test]
async fn many_writers_at_once_are_all_heard_in_order() {
    let Some(mut theatre) = Theatre::open().await else { return };
    for limit in [1, 2, 5, 100] {
        let expected =
            Expected { after_last: LOSES, gapless: Verdict { stalls: true, ..LOSES }, ..ALL_RIGHT };
        check_in(&mut theatre, &expected, &format!("with {limit} at once"), async |scene: &mut Scene| {
            scene.limit = limit;
            let mut writers = Vec::new();
            for n in 0..12 {
                let mut writer = scene.writer().await;
                writer.begin().await;
                next(&mut writer, &format!("a{n}")).await;
                writers.push(writer);
            }
            // They end in another order than they began.
            for n in 0..12 {
                let writer = &mut writers[n * 7 % 12];
                next(writer, &format!("a{}", n * 7 % 12)).await;
                next(writer, "shared").await;
                if n % 5 == 3 {
                    writer.rollback().await
                } else {
                    writer.commit().await
                }
                scene.read().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn random_writers_are_heard_completely_and_in_order() {
    let Some(mut theatre) = Theatre::open().await else { return };
    let seed = seed();
    let play = async |scene: &mut Scene| {
        let mut chance = Dice::new(seed);
        let mut writers = Vec::new();
        for _ in 0..4 {
            writers.push((scene.writer().await, false));
        }
        for _ in 0..300 {
            let n = usize::try_from(chance.below(4)).unwrap();
            let (writer, is_open) = &mut writers[n];
            match chance.below(6) {
                0 => scene.read().await,
                1 if *is_open => {
                    writer.commit().await;
                    *is_open = false;
                }
                2 if *is_open && chance.below(2) == 0 => {
                    writer.rollback().await;
                    *is_open = false;
                }
                _ => {
                    if !*is_open {
                        writer.begin().await;
                        *is_open = true;
                    }
                    // Each has an aggregate of its own, so that nobody here waits for another one.
                    next(writer, ["a", "b", "c", "d"][n]).await;
                }
            }
        }
        for (writer, is_open) in &mut writers {
            if *is_open {
                writer.commit().await;
            }
        }
        let committed: BTreeSet<_> = scene.committed().await;
        assert!(committed.len() > 20, "{committed:?}: {}", repeat(seed));
    };

    assert_eq!(theatre.give(Scheme::BySlot, &play).await, RIGHT, "{}", repeat(seed));
}
