//! The rules that decided, and when, on the page of a pool.

use super::*;

#[tokio::test]
async fn who_was_overtaken_and_who_started_early_is_told_with_the_rule() {
    let app = App::open().await;
    create(&app).await;
    for (dag, units) in [("holder", 16), ("large", 16), ("small", 2)] {
        ask(&app, dag, units, units).await;
    }
    let early = "it started ahead of others, because ";
    for (tab, text) in [("queue", "overtaken by 1 later request"), ("holders", early)] {
        let page = panel_of(&app, &format!("/pools/ADW?tab={tab}"), "tab").await;
        assert!(page.contains(text), "{page}");
    }
}

/// Times are elements, which the script shows in the time zone of the visitor.
#[tokio::test]
async fn no_sentence_contains_a_raw_time() {
    let app = App::open().await;
    create(&app).await;
    ask(&app, "batch_1", 16, 16).await;
    ask(&app, "batch_2", 16, 16).await;
    let by = ReleaseBy::Run { dag_id: "batch_1".into(), run_id: "run".into() };
    let end = End::Refused { reason: "ORA-00018".into() };
    let release = Release { pool: adw(), by, epoch: None, end, call: None };
    pass(&app, Command::Release(Box::new(release))).await;

    for path in ["/", "/pools/ADW", "/pools/ADW?tab=queue", "/pools/ADW?tab=history"] {
        let page = words(&get(&app, path).await);
        assert!(
            page.contains("reaker opened with a pause of 30s: the database refused connections (ORA-00018)"),
            "{page}"
        );
        assert!(!page.contains("000Z"), "{path}: {page}");
    }
    let head = panel_of(&app, "/pools/ADW", "now").await;
    assert!(
        head.contains("open since 2026-11-15 02:00:00 UTC until 2026-11-15 02:00:30 UTC : breaker"),
        "{head}"
    );
    let history = panel_of(&app, "/pools/ADW?tab=history", "tab").await;
    assert!(history.contains("estimated Expected start: 2026-11-1"), "{history}");
}
