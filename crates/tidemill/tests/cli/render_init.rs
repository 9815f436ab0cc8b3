//! The configuration of a worker, written from flags, variables and answers; and the first render of the guide, with the real
//! nexrender.

use crate::documents::first_render;
use crate::{BINARY, Stage};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tidemill_testkit::nexrender::find_home;
use tidemill_testkit::{NexrenderOptions, PrivateNexrender, skip};

/// With a folder that stands for the NAS, and a nexrender that nobody serves.
fn stage() -> Stage {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stage = Stage::new();
    let nas = stage.path("nas").display().to_string();
    stage
        .with("NEXRENDER_API_URL", &format!("http://127.0.0.1:{port}"))
        .with("NAS_MOUNT_PATH", &nas)
        .with("AEP_TEMPLATE_DIR", "D:\\templates")
}

fn shown(stage: &Stage, key: &str) -> String {
    let ran = stage.run(&["config", "show", "--origin", "-o", "csv"]);
    let line = ran.succeeds().stdout.lines().find(|line| line.starts_with(&format!("{key},")));
    line.unwrap_or_default().to_owned()
}

/// The same, in the same folder, without the variables.
fn without_variables(mut stage: Stage) -> Stage {
    stage.environment.clear();
    stage
}

#[test]
fn variables_of_the_document_and_flags_become_a_configuration_that_is_accepted() {
    let stage = stage()
        .with("NEXRENDER_SECRET", "sehr geheim")
        .with("NAS_OUTPUT_DIR", "/air/out")
        .with("WORKER_ID", "worker-7")
        .with("BASE_RETRY_DELAY", "90")
        .with("TIDEMILL_DATABASE_URL", "postgres://tidemill:pw@db/broadcast");

    let ran = stage.run(&["render", "init", "--local-disk", "--nas-on-nodes", "\\\\NAS\\air"]);

    // Nobody serves nexrender; all else is well.
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stdout.contains("TM1520") && ran.stdout.contains("✓ NAS"), "{ran:#?}");
    assert!(ran.stderr.contains("tidemill db migrate") && !ran.stderr.contains("geheim"), "{ran:#?}");
    let text = fs::read_to_string(stage.path("tidemill.toml")).unwrap();
    assert!(!text.contains("geheim") && !text.contains("pw"), "{text}");
    for secret in ["nexrender.secret", "database_url.secret"] {
        let mode = fs::metadata(stage.path(secret)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
    }
    let nas = stage.path("nas/air");
    for folder in ["out", ".staging", ".posters"] {
        assert!(nas.join(folder).is_dir(), "{folder}");
    }
    let stage = without_variables(stage);
    for (key, value) in [
        ("render.secret", "***"),
        ("render.output_folder", "/air/out"),
        ("render.worker", "worker-7"),
        ("render.base_retry_delay", "1m30s"),
        ("render.paths", &format!("\\\\NAS\\air={}", nas.display())),
        ("render.template_folders", "D:\\templates"),
        ("render.mount_check", "false"),
        ("database.url", "postgres://tidemill:***@db/broadcast"),
    ] {
        let line = shown(&stage, key);
        assert!(line.contains(value) && line.contains("tidemill.toml:"), "{key}: {line}");
    }
}

#[test]
fn nothing_is_written_over_and_nothing_is_written_that_does_not_work() {
    let stage = stage();
    fs::write(stage.path("nexrender.secret"), "mine").unwrap();
    let init = |flags: &[&str]| stage.run(&[&["render", "init", "--local-disk"], flags].concat());

    // Nodes run Windows and cannot open /nas.
    let unmapped = init(&[]);
    assert!(unmapped.fails("TM1549", 2).stderr.contains("--nas-on-nodes"), "{unmapped:#?}");
    init(&["--url", "render01"]).fails("TM0102", 2);
    let mapped = ["--nas-on-nodes", "\\\\NAS\\broadcast"];
    assert!(!stage.path("tidemill.toml").exists() && !stage.path("nas").exists());

    // Without a secret, the file of another one is not in the way.
    assert_eq!(init(&mapped).code, Some(1));
    init(&mapped).fails("TM0005", 5);
    assert_eq!(fs::read_to_string(stage.path("nexrender.secret")).unwrap(), "mine");
    let stage = stage.with("NEXRENDER_SECRET", "new").with("WORKER_ID", "two");
    fs::remove_file(stage.path("tidemill.toml")).unwrap();
    let again = ["render", "init", "--local-disk", mapped[0], mapped[1]];
    stage.run(&again).fails("TM0005", 5);
    assert!(!stage.path("tidemill.toml").exists());
    assert_eq!(stage.run(&[&again[..], &["--force"]].concat()).code, Some(1));
    assert_eq!(fs::read_to_string(stage.path("nexrender.secret")).unwrap(), "new\n");

    // What the replaced file says of renders holds on, and the rest is not lost.
    let stage = without_variables(stage);
    let mut text = fs::read_to_string(stage.path("tidemill.toml")).unwrap();
    text.push_str("\n[server]\nlisten = '127.0.0.1:7799'\n");
    fs::write(stage.path("tidemill.toml"), &text).unwrap();
    let forced = stage.run(&["render", "init", "--force", "--name", "three"]);
    assert!(forced.code == Some(1) && forced.stderr.contains("tidemill.toml.old"), "{forced:#?}");
    assert_eq!(fs::read_to_string(stage.path("tidemill.toml.old")).unwrap(), text);
    assert!(shown(&stage, "render.worker").contains("three"));
    assert!(shown(&stage, "render.template_folders").contains("D:\\templates,"));
    assert_eq!(fs::read_to_string(stage.path("nexrender.secret")).unwrap(), "new\n");
}

#[test]
fn all_that_is_missing_is_listed_where_nobody_can_be_asked() {
    let stage = Stage::new();

    let ran = stage.run(&["render", "init"]);

    ran.fails("TM1549", 2);
    for part in ["NEXRENDER_API_URL", "NAS_MOUNT_PATH", "AEP_TEMPLATE_DIR"] {
        assert!(ran.stderr.contains(part), "{part}: {ran:#?}");
    }
    // The old worker's environment does not name a database.
    let supabase = stage.with("SUPABASE_URL", "https://abcd.supabase.co");
    supabase.run(&["render", "init"]).fails("TM1548", 2);
}

#[test]
fn a_nas_that_is_not_mounted_gets_no_folders() {
    let stage = stage();
    fs::create_dir(stage.path("nas")).unwrap();

    let ran = stage.run(&["render", "init", "--nas-on-nodes", "\\\\NAS\\broadcast"]);

    assert!(ran.code == Some(1) && ran.stdout.contains("TM1537"), "{ran:#?}");
    assert!(ran.stderr.contains("add --local-disk"), "{ran:#?}");
    assert_eq!(fs::read_dir(stage.path("nas")).unwrap().count(), 0);
}

#[test]
fn on_a_terminal_it_asks_and_does_not_show_the_secret() {
    let stage = Stage::new().with("TIDEMILL_RENDER_MOUNT_CHECK", "false");
    let nas = stage.path("nas").display().to_string();
    // A terminal of its own, on which each question is answered once it is there.
    let script = format!(
        "mkfifo keys; script -qefc \"'{BINARY}' render init\" typescript < keys > /dev/null & exec 3> keys
         answer() {{ until grep -qF -- \"$1\" typescript; do sleep 0.1; done; printf '%s\\n' \"$2\" >&3; }}
         answer 'URL of nexrender' http://127.0.0.1:9
         answer 'Secret of nexrender' 'sehr geheim'
         answer 'Mount point' '{nas}'
         answer 'Folder of After Effects' 'D:\\templates'
         answer 'broadcast on render nodes' '\\\\NAS\\broadcast'
         wait"
    );

    let ran = stage.dress(Command::new("timeout"), &["300", "bash", "-c", &script]).output().unwrap();

    let seen = fs::read_to_string(stage.path("typescript")).unwrap();
    assert!(seen.contains("broadcast on render nodes") && !seen.contains("geheim"), "{ran:?} {seen}");
    assert_eq!(fs::read_to_string(stage.path("nexrender.secret")).unwrap(), "sehr geheim\n");
    assert!(shown(&stage, "render.template_folders").contains("D:\\templates,"));
    assert!(shown(&stage, "render.paths").contains("\\\\NAS\\broadcast="));
}

#[test]
fn the_first_render_of_the_guide_needs_six_commands_and_five_values() {
    if skip::require("nexrender", find_home()).is_none() {
        return;
    }
    // As in the guide.
    let options = NexrenderOptions { secret: "secret".to_owned(), ..NexrenderOptions::default() };
    let farm = PrivateNexrender::start(&options).unwrap();
    fs::copy(farm.templates().join("sample.aep"), farm.templates().join("cyprusdesign.aep")).unwrap();
    let nas = farm.output().join("nas");
    let staging = nas.join("broadcast/.staging");
    fs::create_dir_all(&staging).unwrap();
    // Nodes run under another account when we are root.
    fs::set_permissions(&staging, fs::Permissions::from_mode(0o777)).unwrap();
    let values = [
        ("NEXRENDER_SECRET=secret", "NEXRENDER_SECRET=secret".to_owned()),
        ("http://render01:3000", farm.url()),
        ("'\\\\NAS\\broadcast'", nas.join("broadcast").display().to_string()),
        ("'D:\\templates'", farm.templates().display().to_string()),
        ("/mnt/nas", nas.display().to_string()),
    ];

    let commands = first_render(&values, &nas.join("broadcast/output"));

    assert!(commands.len() <= 6 && values.len() <= 5, "{commands:?}");
    let films: Vec<_> =
        fs::read_dir(nas.join("broadcast/output")).unwrap().map(|day| day.unwrap().path()).collect();
    let films: Vec<_> =
        films.iter().flat_map(|day| fs::read_dir(day).unwrap()).map(|film| film.unwrap()).collect();
    assert_eq!(films.len(), 1, "{films:?}");
    assert_eq!(films[0].file_name(), "Lower Third_1.mp4");
}
