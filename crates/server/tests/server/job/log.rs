//! The output of commands over HTTP and on the page of their execution.

use super::{check, id, launch, look, wait_for};
use crate::{App, Choices};
use axum::http::{Method, StatusCode};
use serde_json::json;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::audit::Role;
use tidemill_engine::job::{CommandSpec, Job, LogFolder, Step};
use tidemill_server::access::Authentication;

/// Says something, waits for a file, and says something more; the second step says little.
fn shout(folder: &TempDir) -> Job {
    let wait = "echo '<b>hello</b>'; while [ ! -e go ]; do sleep 0.02; done; echo done";
    let path = folder.path().to_owned();
    let shell = move |script: &str| CommandSpec::new("sh").args(["-c", script]).folder(path.clone());
    let (first, second) = (shell(wait), shell("echo second"));
    Job::new("shout")
        .step(Step::command("wait", move |_| Ok(first.clone())))
        .step(Step::command("last", move |_| Ok(second.clone())))
}

async fn app(folder: &TempDir, logs: &str) -> App {
    let required = Authentication::Required { issuers: Vec::new() };
    let logs = Some(LogFolder::new(folder.path().join(logs), "node-a.example"));
    let choices = Choices { jobs: vec![shout(folder)], logs, ..Choices::default() };
    App::choosing(required, "", choices).await
}

async fn get(app: &App, path: &str) -> String {
    let answer = app.ask_as(Role::Viewer, Method::GET, path, "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.text
}

/// Looks until the output at a path contains a text.
async fn wait_for_text(app: &App, path: &str, text: &str) -> String {
    for _ in 0..12_000 {
        let found = get(app, path).await;
        if found.contains(text) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no {text:?} at {path}");
}

#[tokio::test]
async fn a_running_command_is_seen_with_its_output_and_how_long_it_has_been_running() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(&folder, "logs").await;
    let execution = id(&launch(&app, "shout", json!({})).await);
    let (api, page) = (format!("/api/v1/executions/{execution}/logs"), format!("/executions/{execution}"));
    wait_for_text(&app, &api, "hello").await;
    app.clock.advance(Duration::from_secs(9));

    let running = get(&app, &page).await;

    assert!(running.contains("&lt;b&gt;hello&lt;/b&gt;</pre>"), "{running}");
    let steps = running.split("id=\"steps\"").nth(1).unwrap().split("</table>").next().unwrap();
    let live = "<time class=\"length\" datetime=\"2026-11-15T02:00:00.000000Z\">9 s</time>";
    assert!(steps.contains(live) && !steps.contains("ms<"), "{steps}");
    let download = format!("/executions/{execution}/logs?step=wait");
    assert!(running.contains(&format!("href=\"{download}\"")), "{running}");

    fs::write(folder.path().join("go"), "").unwrap();
    wait_for(&app, execution, "COMPLETED").await;
    let all = "==> step wait <==\n<b>hello</b>\ndone\n==> step last <==\nsecond\n";
    assert_eq!(get(&app, &api).await, all);
    assert_eq!(get(&app, &format!("{api}?step=last")).await, "second\n");
    let file = app.ask_as(Role::Viewer, Method::GET, &download, "").await;
    assert_eq!((file.header("content-type"), file.text.lines().count()), ("text/plain; charset=utf-8", 2));
    assert!(file.header("content-disposition").starts_with("attachment"), "{file:?}");
}

#[tokio::test]
async fn only_ids_lead_to_a_file_and_only_for_those_who_may_see_executions() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let app = app(&folder, "logs").await;
    fs::create_dir_all(folder.path().join("logs/1")).unwrap();
    fs::write(folder.path().join("logs/secret.log"), "s3cret").unwrap();
    let execution = id(&launch(&app, "shout", json!({})).await);
    wait_for(&app, execution, "COMPLETED").await;
    let api = |id: &str, query: &str| format!("/api/v1/executions/{id}/logs{query}");
    let ask = async |path: &str| app.ask_as(Role::Viewer, Method::GET, path, "").await;

    for wrong in ["..", "%2e%2e", "..%2f1", "1%2f..%2fsecret", "0", "-1", "x"] {
        let answer = ask(&api(wrong, "")).await;
        assert!(answer.status.is_client_error() && !answer.text.contains("s3cret"), "{wrong}: {answer:?}");
    }
    let one = execution.to_string();
    for wrong in ["?step=..%2fsecret", "?step=secret"] {
        check(&ask(&api(&one, wrong)).await, StatusCode::NOT_FOUND, "TM0508");
    }
    check(&ask(&api(&one, "?file=x")).await, StatusCode::BAD_REQUEST, "TM0504");
    check(&ask(&api("99", "")).await, StatusCode::NOT_FOUND, "TM1002");
    let stranger = app.ask(Method::GET, &api(&one, ""), &[], "").await;
    check(&stranger, StatusCode::UNAUTHORIZED, "TM0501");
}

#[tokio::test]
async fn output_that_is_not_here_is_told_with_host_folder_and_setting() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let app = app(&folder, "logs").await;
    let execution = id(&launch(&app, "shout", json!({})).await);
    wait_for(&app, execution, "COMPLETED").await;

    fs::rename(folder.path().join("logs"), folder.path().join("elsewhere")).unwrap();

    let answer =
        app.ask_as(Role::Viewer, Method::GET, &format!("/api/v1/executions/{execution}/logs"), "").await;
    check(&answer, StatusCode::NOT_FOUND, "TM1028");
    let page = get(&app, &format!("/executions/{execution}")).await;
    for text in [answer.text, page] {
        assert!(text.contains("on host node-a.example") && text.contains("jobs.log_dir"), "{text}");
    }
    let plain = id(&launch(&app, "picky", json!({})).await);
    wait_for(&app, plain, "COMPLETED").await;
    assert_eq!(get(&app, &format!("/api/v1/executions/{plain}/logs")).await, "");
    let context = look(&app, &format!("/api/v1/executions/{execution}/steps/1/context")).await;
    assert_eq!(context["values"]["command.log"]["host"], "node-a.example");
}
