//! A world in which every page has something to show: jobs that completed, failed and run, pools with a queue, an outbox with
//! events that were not taken, renders in every state, an alert, a silence, and tokens.

use super::job::{LATER, NIGHTLY, orders, run};
use super::render::gallery;
use super::render::studio::Nas;
use super::scene::{SOON, Scene, Setting};
use super::{PROCESSES, has_row, outbox, pool};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_engine::SystemClock;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_store::url::Dialect;
use tidemill_testkit::account::find_program;
use tidemill_testkit::skip::require;
use tidemill_testkit::{Browser, BrowserOptions};
use tokio::runtime::Runtime;

/// A job that is never done.
const ENDLESS: &str = r#"
job: weekly-report
description: Adds the orders of a week up.
steps:
  - name: add-up
    command: ["sleep", "3600"]
"#;

/// The world. Dropped in this order: the server does not look for what is gone.
pub(super) struct World {
    pub(super) scene: Scene,
    /// The address of a server that wants a login.
    login: String,
    /// What stands in addresses for what has no name before it is there.
    known: Vec<(&'static str, String)>,
    _nas: Nas,
}

impl World {
    /// Makes it on this database; none when the tests of the browser are to be skipped.
    pub(super) fn new(database: Option<Scratch>, browser: BrowserOptions) -> Option<Self> {
        require("nexrender", find_program("ffmpeg").and(find_program("ffprobe")))?;
        let nas = Nas::new();
        let settings = nas.settings();
        let variables = &settings.each_ref().map(|(name, value)| (*name, value.as_str()));
        let jobs = &[("nightly.yaml", NIGHTLY), ("weekly.yaml", ENDLESS)];
        let mut scene = Scene::set(Setting { database, variables, jobs, browser })?;
        let runtime = Runtime::new().unwrap();
        let parked = runtime.block_on(fill(&scene, &nas));
        scene.add_worker("lost-worker-with-quite-a-long-name-01").kill();
        let login = add_people(&mut scene);
        let mut known = vec![("{parked}", parked)];
        known.extend(run_jobs(&scene));
        known.push(("{ticket}", ticket(&scene)));
        let is_lost = |_: &Browser| {
            let page = scene.visit("/");
            Ok(has_row(page, PROCESSES, &["lost-worker", "dead"])? && page.exists("#attention .state.bad")?)
        };
        scene.browser().wait_until(LATER, is_lost).unwrap();
        Some(Self { scene, login, known, _nas: nas })
    }

    /// Where a page is.
    pub(super) fn address(&self, path: &str) -> String {
        if path == "/login" {
            return format!("{}{path}", self.login);
        }
        let known = |path: String, (name, value): &(&str, String)| path.replace(name, value);
        self.scene.address(&self.known.iter().fold(path.to_owned(), known))
    }
}

/// Fills the database as programs and workers do; returns the number of an event that nobody tries any more.
async fn fill(scene: &Scene, nas: &Nas) -> String {
    let now = SystemClock::new().now();
    // A little in the past, so that somebody can have waited.
    let earlier = scene.store(Arc::new(FakeClock::at(now.minus(Duration::from_secs(90))))).await;
    add_history(&earlier).await;
    pool::crowd(&earlier).await;
    let parked = outbox::furnish(&earlier).await;
    earlier.close().await;
    let store = scene.real_store().await;
    gallery::furnish(&store, nas).await;
    store.close().await;
    parked.to_string()
}

/// A history of other jobs, each of whose executions took some seconds.
async fn add_history(store: &Store) {
    let took = match store.dialect() {
        Dialect::Sqlite => {
            "strftime('%Y-%m-%d %H:%M:%f', start_time, (7 + job_execution_id % 31) || ' seconds') || '000'"
        }
        Dialect::Postgres => "start_time + (7 + job_execution_id % 31) * interval '1 second'",
    };
    let mut tx = store.begin().await.unwrap();
    tx.fill_history(300).await.unwrap();
    tx.execute_for_test(&format!(
        "update batch_job_execution
         set end_time = {took},
             exit_message = case when status = 'FAILED' then 'the warehouse did not answer within 30 s' else '' end"
    ))
    .await
    .unwrap();
    tx.commit().await.unwrap();
}

/// Tokens in every state and a silence; returns the address of a server for which a token is needed.
fn add_people(scene: &mut Scene) -> String {
    scene.run(&["token", "create", "airflow in the north", "--role", "requester", "--scope", "pool/etl*"]);
    let used = scene.run(&["token", "create", "grafana", "--role", "viewer"]);
    let revoked = scene.run(&["token", "create", "old", "--role", "viewer"]);
    scene.run(&["token", "delete", revoked.split('_').nth(1).unwrap()]);
    scene.run(&["alert", "silence", "database_slow", "--for", "1h", "--reason", "the disk is being moved"]);
    scene.add_server_with_login(&used)
}

/// One execution that completed, one that failed, and one that runs.
fn run_jobs(scene: &Scene) -> [(&'static str, String); 3] {
    let end = |page: &Browser, status: &str| {
        // Going to another place on the same page would not load it again.
        let path = scene.path().split('#').next().unwrap().to_owned();
        page.wait_until(LATER, |_| Ok(scene.visit(&path).text("[data-live=head]")?.contains(status)))
            .unwrap();
        path.rsplit('/').next().unwrap().to_owned()
    };
    scene.write("orders.csv", &orders(false));
    let completed = end(run(scene, "2026-11-14"), "COMPLETED");
    scene.write("orders.csv", &orders(true));
    let failed = end(run(scene, "2026-11-15"), "FAILED");
    let page = scene.visit("/jobs/weekly-report");
    page.click("#run button.do").unwrap();
    page.wait_until(SOON, |_| Ok(scene.path().starts_with("/executions/"))).unwrap();
    let running = end(page, "STARTED");
    [("{completed}", completed), ("{failed}", failed), ("{running}", running)]
}

/// The number of somebody who has units.
fn ticket(scene: &Scene) -> String {
    let page = scene.visit("/pools/ADW");
    let link = page.execute("return document.querySelector('#tab a[data-ask]').pathname").unwrap();
    link.as_str().unwrap().split('/').nth(4).unwrap().to_owned()
}
