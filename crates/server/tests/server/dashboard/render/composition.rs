//! Workers, profiles and mappings.

use super::*;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::MappingRow;

pub(crate) fn profile(composition: &str) -> Profile {
    let profile = json!({
        "composition": composition,
        "template": "D:\\templates\\cyprus.aep",
        "output_module": "H.264",
        "width": 1920,
        "height": 1080,
        "rate": "30000/1001",
        "duration": "5s",
    });
    serde_json::from_value(profile).unwrap()
}

pub(crate) fn mapping(composition: &str, field: &str) -> MappingRow {
    let row =
        json!({ "composition": composition, "field_name": field, "layer_name": "Name 1", "optional": true });
    serde_json::from_value(row).unwrap()
}

pub(crate) async fn know(app: &App, profiles: &[Profile], rows: &[MappingRow]) {
    let mut tx = app.store.begin().await.unwrap();
    tx.renders().save_profiles(profiles, &Actor::system()).await.unwrap();
    tx.renders().save_field_mappings(rows, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn pages_without_anything_say_what_to_do() {
    let app = App::open().await;

    for (path, said) in [
        ("/render/workers", "tidemill render worker<"),
        ("/render/profiles", "tidemill render profile import profiles.yaml<"),
        ("/render/mappings", "tidemill render mapping import mapping.csv<"),
    ] {
        let page = look(&app, path).await;
        assert!(page.contains(said), "{path}: {page}");
        assert!(page.contains("aria-current=\"page\">Render</a>"), "{path}");
        assert!(!page.contains("class=\"banner"), "{path}");
    }
}

#[tokio::test]
async fn workers_are_shown_with_what_they_have_and_how_they_fare() {
    let app = App::open().await;
    ordered(&app, "Lost").await;
    fail(&app, &claim(&app, "w1").await, "x").await;
    let running = ordered(&app, "Chips").await;
    let claimed = claim(&app, "w1").await;
    render_to(&app, &claimed, 42.0).await;
    let mut tx = app.store.begin().await.unwrap();
    let beat = WorkerBeat {
        process: claimed.fence.owner,
        name: "w1",
        capacity: 4,
        in_flight: 1,
        state: WorkerState::Working,
        farm: Some(Duration::from_millis(12)),
        copy: None,
    };
    tx.renders().beat_worker(beat).await.unwrap();
    tx.commit().await.unwrap();
    super::beat(&app, HOSTILE, 2, 2, WorkerState::Paused).await;

    let page = look(&app, "/render/workers").await;
    let text = words(&page);

    assert!(
        text.contains(
            "● working w1 Chips #2 42 % 42 % rendering 1 of 4 busy 12 ms unknown 0 completed ✖ 1 failed"
        ),
        "{text}"
    );
    assert!(text.contains("▲ paused see its log") && !page.contains("<script>alert"), "{text}");
    assert!(page.contains(&format!("href=\"/render/{running}\"")) && page.contains("page=render-workers"));
    app.clock.advance(Duration::from_secs(120));
    assert!(words(&look(&app, "/render/workers").await).contains("✖ silent"));
}

#[tokio::test]
async fn what_is_known_of_compositions_is_shown_as_tables() {
    let app = App::open().await;
    let rows = [
        mapping("Main", "Slot 1 - name"),
        mapping("Other", "Single - table"),
        mapping(HOSTILE, "Single - x"),
    ];
    know(&app, &[profile("Main"), profile(HOSTILE)], &rows).await;

    let profiles = look(&app, "/render/profiles").await;
    let text = words(&profiles);
    assert!(
        text.contains("Main D:\\templates\\cyprus.aep H.264 1920 × 1080 30000/1001 per second 5s"),
        "{text}"
    );
    assert!(text.contains(".mp4 (mp4), h264, yuv420p at least 1000 bytes any every frame"), "{text}");
    assert!(
        profiles.contains("tidemill render profile export --format yaml &gt; profiles.yaml"),
        "{profiles}"
    );
    assert!(
        profiles.contains("href=\"/render/mappings?composition=Main\"")
            && !profiles.contains("<script>alert")
    );
    let all = look(&app, "/render/mappings").await;
    assert!(
        words(&all).contains("Other Single - table Name 1 Source Text text cleared if it is text"),
        "{}",
        words(&all)
    );
    assert!(
        !all.contains("<script>alert")
            && all.contains("tidemill render mapping export --format csv &gt; mapping.csv")
    );
    let one = look(&app, "/render/mappings?composition=Main").await;
    assert!(one.contains("Slot 1 - name") && !one.contains("Single - table"));
    assert!(look(&app, "/render/mappings?composition=Nope").await.contains("“Nope” has no field mappings."));
}

#[tokio::test]
async fn a_composition_that_renders_want_and_nobody_knows_is_told() {
    let app = App::open().await;
    know(&app, &[profile("Main"), profile("Bare")], &[mapping("Main", "Slot 1 - name")]).await;
    for composition in ["Main", "Bare", "Unknown & Co", "Unknown & Co"] {
        ordered(&app, composition).await;
    }

    for path in ["/render/profiles", "/render/mappings"] {
        let text = words(&look(&app, path).await);
        assert!(
            text.contains("✖ No profile for “Unknown &amp; Co” of 2 renders, so they cannot render."),
            "{text}"
        );
        assert!(text.contains("▲ No field mappings for “Bare” of 1 render."), "{text}");
        assert!(!text.contains("“Main”"), "{text}");
    }
    assert!(look(&app, "/render/profiles").await.contains("href=\"/render?composition=Unknown%20%26%20Co\""));
}
