//! The list: what is at work, what waits and why, what came of the others.

use super::*;

#[tokio::test]
async fn an_empty_queue_says_how_to_order_the_first_render() {
    let app = App::open().await;

    let page = look(&app, "/render").await;

    assert!(page.contains("<code>tidemill render submit data.json --cue-item cue-1</code>"), "{page}");
    assert!(page.contains("No active renders.") && !page.contains("No worker is running"));
    assert!(page.contains("aria-current=\"page\">Render</a>") && page.contains("data-key=\"r\""));
}

#[tokio::test]
async fn each_render_says_how_it_stands() {
    let app = App::open().await;
    beat(&app, "worker-1", 1, 1, WorkerState::Working).await;
    let failed = ordered(&app, "Broken").await;
    fail(&app, &claim(&app, "worker-1").await, "the template is gone\nsecond line").await;
    let done = ordered(&app, "Done").await;
    let claimed = claim(&app, "worker-1").await;
    app.clock.advance(Duration::from_secs(150));
    beat(&app, "worker-1", 1, 1, WorkerState::Working).await;
    // Its lease is as old as its claim, and whoever has it may say so.
    complete(&app, &claimed).await;
    let running = ordered(&app, "Chip Count").await;
    let claimed = claim(&app, "worker-1").await;
    render_to(&app, &claimed, 37.0).await;
    let (first, second) = (ordered(&app, "First").await, ordered(&app, "Second").await);
    app.clock.advance(Duration::from_secs(20));

    let page = look(&app, "/render").await;

    assert_eq!(
        ids(&page),
        [running, first, second, done, failed].map(RenderId::get),
        "running, then waiting in order, then what ended last"
    );
    let text = row_text(&page, running);
    assert!(text.contains("● rendering Chip Count PHIL IVEY #3"), "{text}");
    assert!(
        text.contains("37 % rendering") && text.contains("worker-1 · for 20 s · lease ends in 40 s"),
        "{text}"
    );
    assert!(
        page.contains(
            "<progress max=\"100\" value=\"37\" aria-label=\"Progress of render 3\">37 %</progress>"
        )
    );
    let text = row_text(&page, first);
    assert!(text.contains("No. 1 The only place at the farm is busy."), "{text}");
    assert!(text.contains("Starts in about 2 min."), "{text}");
    let text = row_text(&page, second);
    assert!(text.contains("No. 2") && text.contains("Starts in about 5 min."), "{text}");
    let text = row_text(&page, done);
    assert!(text.contains("● completed") && text.contains("took 2 min · 18.4 MB"), "{text}");
    assert!(text.contains("\\\\NAS\\output\\film.mp4"), "{text}");
    let text = row_text(&page, failed);
    assert!(text.contains("✖ failed") && text.contains("TM1524 the template is gone"), "{text}");
    assert!(!text.contains("second line"), "{text}");
}

#[tokio::test]
async fn a_render_that_misses_its_deadline_is_marked() {
    let app = App::open().await;
    beat(&app, "worker-1", 1, 0, WorkerState::Working).await;
    ordered(&app, "Done").await;
    let claimed = claim(&app, "worker-1").await;
    app.clock.advance(Duration::from_secs(150));
    complete(&app, &claimed).await;
    beat(&app, "worker-1", 2, 1, WorkerState::Working).await;
    let within = |seconds| {
        let deadline = Some(app.clock.now().plus(Duration::from_secs(seconds)));
        NewRender { deadline, ..new_render("Due") }
    };
    let (tight, wide) = (submit(&app, &within(100)).await, submit(&app, &within(1_000)).await);

    let page = look(&app, "/render").await;
    assert!(row_text(&page, tight).contains("will be late by about 50 s"), "{}", row_text(&page, tight));
    assert!(!row_text(&page, wide).contains("late"), "{}", row_text(&page, wide));

    app.clock.advance(Duration::from_secs(130));
    let page = look(&app, "/render").await;
    assert!(row_text(&page, tight).contains("✖ late by 30 s"), "{}", row_text(&page, tight));
}

#[tokio::test]
async fn jobs_that_are_still_to_be_removed_take_no_place_that_a_worker_has_free() {
    let app = App::open().await;
    let mut tx = app.store.begin().await.unwrap();
    for render in 1_000..1_060 {
        let sql = format!(
            "insert into render_leftover (render_id, epoch, nexrender_job_id, slot, file, since, look_after)
             values ({render}, 1, 'rq-{render}-1', 'free', 'delete', 0, 0)"
        );
        tx.execute_for_test(&sql).await.unwrap();
    }
    tx.commit().await.unwrap();
    beat(&app, "worker-1", 2, 0, WorkerState::Working).await;
    let id = ordered(&app, "A").await;

    let page = look(&app, "/render").await;

    let text = row_text(&page, id);
    assert!(text.contains("No. 1 A worker takes it at its next poll."), "{text}");
}

#[tokio::test]
async fn who_is_needed_and_missing_is_told_above_all() {
    let app = App::open().await;
    let id = ordered(&app, "A").await;

    let alone = look(&app, "/render").await;
    assert!(alone.contains("<code>tidemill render worker</code>"), "{alone}");
    assert!(row_text(&alone, id).contains("No. 1 ✖ No worker is running."), "{}", row_text(&alone, id));

    beat(&app, "worker-1", 4, 0, WorkerState::Paused).await;
    let paused = look(&app, "/render").await;
    assert!(paused.contains("all are paused or stopping"), "{paused}");
    assert!(row_text(&paused, id).contains("No worker takes renders"), "{}", row_text(&paused, id));

    beat(&app, "worker-2", 4, 0, WorkerState::Working).await;
    let ready = look(&app, "/render").await;
    assert!(!ready.contains("class=\"banner"), "{ready}");
    assert!(row_text(&ready, id).contains("A worker takes it at its next poll."));
    assert!(ready.contains("data-why=\"next\""));

    app.clock.advance(Duration::from_secs(120));
    assert!(
        look(&app, "/render").await.contains("No worker is running"),
        "nobody was heard of for two minutes"
    );
}

#[tokio::test]
async fn what_is_put_off_says_until_when_and_has_no_place_in_the_queue() {
    let app = App::open().await;
    beat(&app, "worker-1", 1, 0, WorkerState::Working).await;
    let id = ordered(&app, "A").await;
    let trouble = Trouble::new(Failure::NexrenderDown, "connection refused");
    say(&app, &claim(&app, "worker-1").await, Work::Failed(trouble)).await;
    let next = ordered(&app, "B").await;

    let page = look(&app, "/render").await;

    let text = row_text(&page, id);
    assert!(text.contains("▲ pending") && text.contains("Next attempt 2026-11-15 02:0"), "{text}");
    assert!(text.contains("TM1520 connection refused") && !text.contains("No. "), "{text}");
    assert!(row_text(&page, next).contains("No. 1"), "{}", row_text(&page, next));
    assert!(page.contains("Retry…"), "nobody has to wait for it");
}

#[tokio::test]
async fn a_worker_that_has_vanished_is_seen_in_the_row() {
    let app = App::open().await;
    let id = ordered(&app, "A").await;
    claim(&app, "gone").await;
    app.clock.advance(Duration::from_secs(90));

    let page = look(&app, "/render").await;

    let text = row_text(&page, id);
    assert!(text.contains("✖ preparing worker is silent") && text.contains("lease ended"), "{text}");
    assert!(text.contains("Recover…"), "{text}");
}

#[tokio::test]
async fn counters_lead_to_the_renders_of_their_status() {
    let app = App::open().await;
    for _ in 0..3 {
        ordered(&app, "A").await;
    }
    fail(&app, &claim(&app, "w").await, "x").await;

    let page = look(&app, "/render").await;
    let chips = words(between(&page, "aria-label=\"Statuses\">", "</nav>"));
    assert!(
        chips.contains("○ pending 2") && chips.contains("✖ failed 1") && chips.contains("○ rendering 0"),
        "{chips}"
    );
    assert!(page.contains("href=\"/render?status=failed\""));

    assert_eq!(ids(&look(&app, "/render?status=failed").await), [1]);
    assert_eq!(ids(&look(&app, "/render?status=pending").await), [2, 3]);
    assert_eq!(ids(&look(&app, "/render?status=rendering").await), [0; 0]);
    let bad = app.ask(Method::GET, "/render?status=done", &[], "").await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert!(bad.header("content-type").starts_with("text/html") && bad.text.contains("use one of pending"));
}

#[tokio::test]
async fn renders_are_found_by_composition_text_and_day() {
    let app = App::open().await;
    let mut wanted = new_render("Main & Co");
    wanted.cue_item = Some("Cue-17".into());
    wanted.broadcast_date = Some("2026-11-20".parse().unwrap());
    let id = submit(&app, &wanted).await;
    ordered(&app, "Other").await;

    for query in [
        "composition=Main+%26+Co",
        "text=cue-1",
        "text=MAIN",
        "date=2026-11-20",
        "date=2026-11-20&text=main&status=pending",
    ] {
        let page = look(&app, &format!("/render?{query}")).await;
        assert_eq!(ids(&page), [id.get()], "{query}");
        assert!(page.contains("Search results do not update themselves"), "{query}");
    }
    for query in ["composition=Main", "text=100%25", "date=2026-11-21", "date=2026-11-20&status=failed"] {
        let page = look(&app, &format!("/render?{query}")).await;
        assert!(ids(&page).is_empty() && page.contains("No renders match."), "{query}");
    }
    let kept = look(&app, "/render?composition=Main+%26+Co&text=&date=").await;
    assert!(kept.contains("value=\"Main &amp; Co\""));
    assert!(kept.contains("href=\"/render?status=failed&amp;composition=Main%20%26%20Co\""), "{kept}");
    let bad = app.ask(Method::GET, "/render?date=tomorrow", &[], "").await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_long_list_is_shown_page_by_page_with_what_is_at_work_on_top() {
    let app = App::open().await;
    for _ in 0..60 {
        ordered(&app, "A").await;
    }
    let claimed = claim(&app, "w").await;
    assert_eq!(claimed.record.id().get(), 1);

    let first = look(&app, "/render?text=a").await;
    let older = between(&first, "class=\"button\" href=\"/render?text=a&amp;before=", "\"");
    let second = look(&app, &format!("/render?text=a&before={older}")).await;

    assert_eq!(ids(&first).len(), 51);
    assert_eq!(ids(&first)[..3], [1, 60, 59]);
    assert_eq!(ids(&second), (1..=10).rev().collect::<Vec<_>>());
    assert!(second.contains(">Newest</a>") && !second.contains(">Older</a>"));
    assert!(look(&app, "/render").await.contains("The first 20 of 59."));
}

#[tokio::test]
async fn hostile_strings_are_shown_as_text_wherever_they_come_from() {
    let app = App::open().await;
    let mut new = new_render(HOSTILE);
    new.cue_item = Some(HOSTILE.into());
    let id = submit(&app, &new).await;
    let claimed = claim(&app, HOSTILE).await;

    for path in ["/render", "/render?text=%3Cscript%3E%22", "/render?composition=%3Cscript%3E%22%27"] {
        let page = look(&app, path).await;
        assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;"), "{path}: {page}");
        assert!(!page.contains("value=\"<script>"), "{path}");
    }
    fail(&app, &claimed, HOSTILE).await;
    let page = look(&app, "/render?status=failed").await;
    assert_eq!(ids(&page), [id.get()]);
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;"));
    assert!(!page.contains("style=\"") && !page.contains("onclick"));
}
