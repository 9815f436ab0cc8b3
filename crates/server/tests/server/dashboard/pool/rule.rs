//! The rules that decided, on the page of a pool.

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
