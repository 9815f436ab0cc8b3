//! The commands of README, of the guides, of the migration guides and of the runbook, run as they stand there.
//!
//! Each document has a folder and a database of its own. What a test cannot run has a reason in the document, and the list
//! of these is printed: `cargo test -p tidemill --test cli -- documents --nocapture`.

#![expect(clippy::print_stdout, reason = "what was not run is told")]

mod page;
mod stand;

use crate::{Stage, workspace};
use page::{Page, Part};
use stand::{Called, Stand};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::account::find_program;
use tidemill_testkit::skip;

/// The documents whose commands are run, by the root of the workspace.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![
        PathBuf::from("README.md"),
        PathBuf::from("docs/guarantees.md"),
        PathBuf::from("docs/install.md"),
        PathBuf::from("docs/production.md"),
    ];
    for folder in ["docs/guide", "docs/migrate", "docs/runbook"] {
        for entry in fs::read_dir(workspace().join(folder)).unwrap() {
            found.push(Path::new(folder).join(entry.unwrap().file_name()));
        }
    }
    found.sort();
    found
}

fn read(document: &Path) -> Page {
    let text = fs::read_to_string(workspace().join(document)).unwrap();
    Page::read(&text).unwrap_or_else(|wrong| panic!("{}: {wrong}", document.display()))
}

/// Who follows README has a clone in which the program was built, and nothing else; elsewhere it is installed.
fn called_in(document: &Path) -> Called {
    if document == Path::new("README.md") { Called::AsTold } else { Called::ByName }
}

/// Pages that are played at the same time; their commands wait more than they compute.
const PLAYERS: usize = 4;

/// Plays all pages, each on a database that has its schema; tells what does not work.
fn play(pages: Vec<(PathBuf, Page, Option<Scratch>)>) -> Vec<String> {
    let ready = Stage::new();
    ready.run(&["db", "migrate"]).succeeds();
    let (pages, wrong) = (Mutex::new(pages), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                while let Some((document, page, database)) = take(&pages) {
                    let url = database.as_ref().map(Scratch::url);
                    let stand = Stand::new(&ready.path("tidemill.db"), url, called_in(&document));
                    if let Err(reason) = stand.play(&page) {
                        wrong.lock().unwrap().push(format!("{}: {reason}", document.display()));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

fn take<T>(queue: &Mutex<Vec<T>>) -> Option<T> {
    queue.lock().unwrap().pop()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_documents_work_in_their_order() {
    if skip::require("curl", find_program("curl")).is_none() {
        return;
    }
    let (mut pages, mut blocks, mut left) = (Vec::new(), 0, 0);
    for document in documents() {
        let page = read(&document);
        for part in &page.parts {
            match part {
                Part::Leave { line, reason, .. } => {
                    left += 1;
                    println!("not run: {}:{line}: {reason}", document.display());
                }
                Part::Run { .. } | Part::Keep { .. } => blocks += 1,
                Part::File { .. } => {}
            }
        }
        let needs_postgres = page.on_postgres;
        let database = if needs_postgres { Scratch::postgres().await } else { None };
        if !needs_postgres || database.is_some() {
            pages.push((document, page, database));
        }
    }

    assert!(blocks >= 60, "only {blocks} blocks were found");
    assert!(left * 2 < blocks, "{left} blocks are not run, and only {blocks} are");
    let wrong = tokio::task::spawn_blocking(|| play(pages)).await.unwrap();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_command_that_does_not_work_is_found_with_its_line() {
    let wrong = |text: &str| {
        let page = Page::read(text).unwrap();
        play(vec![("page.md".into(), page, None)])
    };

    assert_eq!(wrong("```sh\ncargo run --release -- pool list\n```\n"), Vec::<String>::new());
    for text in [
        "# A\n\n```sh\ncargo run --release -- frobnicate\n```\n",
        "# A\n\n```sh\ntidemill pool show none\ntidemill pool list\n```\n",
        "# A\n\n```sh\ntidemill pool show none | cat\n```\n",
        "# A\n\n```sh\ncargo build\n```\n",
        "# A\n<!-- exit code: 3, as there is none -->\n```sh\ntidemill pool list\n```\n",
        "# A\n<!-- keeps running -->\n```sh\ntidemill frobnicate\n```\n",
    ] {
        let found = wrong(text);
        assert!(found.len() == 1 && found[0].starts_with("page.md: line 4: "), "{text}: {found:?}");
    }
}

#[test]
fn a_readme_that_does_not_say_how_the_program_is_found_is_found() {
    let text = fs::read_to_string(workspace().join("README.md")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("export PATH=")).collect();
    assert_eq!(lines.len() + 1, text.lines().count());
    let page = Page::read(&lines.join("\n")).unwrap();

    let wrong = play(vec![("README.md".into(), page, None)]);

    assert!(wrong.len() == 1 && wrong[0].contains("tidemill: command not found"), "{wrong:?}");
}

/// Does what the guide shows for the first render, with these values in place of its own, and waits for the file. Its
/// commands.
pub(crate) fn first_render(values: &[(&str, String)], output: &Path) -> Vec<String> {
    let guide = fs::read_to_string(workspace().join("docs/guide/render.md")).unwrap();
    let (_, section) = guide.split_once("\n## Your first render\n").unwrap();
    let mut page = Page::read(section.split("\n## ").next().unwrap()).unwrap();
    // What makes up for a farm and a NAS that are not there.
    page.parts.retain(|part| !matches!(part, Part::Run { script, .. } if script.starts_with("export ")));
    let mut commands = Vec::new();
    for part in &mut page.parts {
        if let Part::Run { script, exit, .. } = part {
            let is_init = script.contains("render init");
            for (value, real) in values.iter().filter(|_| is_init) {
                assert_eq!(script.matches(value).count(), 1, "{value}: {script}");
                *script = script.replace(value, real);
            }
            *exit = 0;
        }
        if let Part::Run { script, .. } | Part::Keep { script, .. } = part {
            commands.extend(script.replace("\\\n", "").lines().map(str::to_owned));
        }
    }
    let run = |script: String| Part::Run { line: 0, script, exit: 0 };
    // Their NAS is mounted; ours is a folder.
    page.parts.insert(0, run("export TIDEMILL_RENDER_MOUNT_CHECK=false".to_owned()));
    let wait = format!("for i in {{1..600}}; do ls '{}'/*/*.mp4 && exit; sleep 0.2; done", output.display());
    page.parts.push(run(format!("{wait}\ntidemill render show 1; exit 1")));
    let nothing = Stage::new();
    fs::write(nothing.path("tidemill.db"), "").unwrap();
    let played = Stand::new(&nothing.path("tidemill.db"), None, Called::ByName).play(&page);
    assert_eq!(played, Ok(()));
    commands
}

/// The scripts and files of a page, without their comments, which are translated.
fn code_of(document: &str) -> Vec<String> {
    let code = |part| match part {
        Part::Run { script, .. } | Part::Keep { script, .. } | Part::Leave { script, .. } => script,
        Part::File { text, .. } => text,
    };
    let statement = |line: &str| {
        let end = ["# ", "// "].iter().filter_map(|sign| line.find(sign)).min();
        line[..end.unwrap_or(line.len())].trim_end().to_owned()
    };
    let lines = |text: String| text.lines().map(statement).collect::<Vec<String>>().join("\n");
    read(Path::new(document)).parts.into_iter().map(code).map(lines).collect()
}

/// The number of rows of each table of a page.
fn tables_of(document: &str) -> Vec<usize> {
    let text = fs::read_to_string(workspace().join(document)).unwrap();
    let prose = text.split("```").step_by(2).collect::<String>();
    let lines: Vec<&str> = prose.lines().collect();
    let parts = lines.split(|line| !line.starts_with('|')).map(<[&str]>::len);
    parts.filter(|rows| *rows > 0).collect()
}

#[test]
fn korean_pages_show_the_same_code_and_tables_as_the_english_ones() {
    for (english, korean) in [
        ("README.md", "README.ko.md"),
        ("docs/guide/pools.md", "docs/ko/pools.md"),
        ("docs/guide/jobs.md", "docs/ko/jobs.md"),
        ("docs/guide/outbox.md", "docs/ko/outbox.md"),
        ("docs/guide/render.md", "docs/ko/render.md"),
    ] {
        let shown = code_of(english);

        assert!(!shown.is_empty(), "{english}");
        assert_eq!(shown, code_of(korean), "{korean}");
        assert_eq!(tables_of(english), tables_of(korean), "{korean}");
    }
}
