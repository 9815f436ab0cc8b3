//! What operators do all day: a render is ordered by its form, and failed ones are retried together.

use super::studio::{COMPOSITION, describe, order};
use super::{click, has_row};
use crate::browser::scene::{SOON, Scene, Setting};

const BOXES: &str =
    "return [...document.querySelectorAll('input[name=id]')].filter((box) => box.checked).length";

/// Fails everything that waits.
const FAIL: &str =
    "update render_queue set status = 'failed', error_code = 'TM1524', error_message = 'no such template'";

#[test]
fn a_render_is_ordered_by_its_form_and_failed_ones_are_retried_together() {
    let variables = &[("TIDEMILL_RENDER_ZONE", "Asia/Seoul")];
    let Some(scene) = Scene::set(Setting { variables, ..Setting::default() }) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(scene.real_store());
    let run = |statement: &str| {
        runtime.block_on(async {
            let mut tx = store.begin().await.unwrap();
            tx.execute_for_test(statement).await.unwrap();
            tx.commit().await.unwrap();
        });
    };
    runtime.block_on(describe(&store));

    let page = scene.visit("/render/new");
    page.set_window(1280, 1000).unwrap();
    click(page, "#composition button.do");
    page.wait_until(SOON, |page| page.exists("[name='Slot 1 - name']")).unwrap();
    page.fill("[name='Slot 1 - name']", "PHIL IVEY").unwrap();
    page.fill("[name=priority]", "5").unwrap();
    page.execute("document.querySelector('[name=deadline]').value = '2030-11-16T03:00'").unwrap();
    click(page, "#fields button.do");
    page.wait_until(SOON, |page| Ok(page.exists("#preview")? && page.text("#preview")?.contains("ready")))
        .unwrap();
    click(page, "#preview button.do");
    page.wait_until(SOON, |page| Ok(page.text("h1")?.contains(COMPOSITION))).unwrap();
    let facts = page.text("#how").unwrap();
    assert!(facts.contains("2030-11-16 03:00:00 KST") && facts.contains("Priority"), "{facts}");

    runtime.block_on(order(&store, COMPOSITION, "cue-2", 0));
    run(FAIL);
    scene.visit("/render?status=failed");
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    assert!(has_row(page, "#renders tbody tr", &["TM1524", "What to do: put the project"]).unwrap());
    for id in [1, 2] {
        click(page, &format!("input[name=id][value='{id}']"));
    }
    run("update render_queue set error_message = 'still no such template'");
    page.wait_until(SOON, |page| has_row(page, "#renders tbody tr", &["still no such"])).unwrap();
    assert_eq!(page.execute(BOXES).unwrap(), 2, "a live change keeps what is picked");

    click(page, "button[formaction='/render/retry']");
    page.wait_until(SOON, |page| {
        Ok(page.exists(".sheet")? && page.text(".sheet")?.contains("Retry 2 renders?"))
    })
    .unwrap();
    page.fill(".sheet [name=reason]", "the template is there").unwrap();
    click(page, ".sheet button.do");
    page.wait_until(SOON, |page| {
        Ok(page.exists(".banner.ok")? && page.text(".banner.ok")?.contains("done for 2 renders"))
    })
    .unwrap();
    click(page, "main a.button[href='/render?status=failed']");
    page.wait_until(SOON, |page| Ok(page.text("#renders")?.contains("No ended renders."))).unwrap();
    scene.visit("/settings/audit");
    assert!(has_row(page, "#entries tbody tr", &["render.retry", "the template is there"]).unwrap());
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    runtime.block_on(store.close());
}
