//! What goes wrong is told with a code, a reason and a fix; nothing panics, and the exit code is right.

use crate::{BINARY, Ran, Stage};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::skip;

#[test]
fn a_database_that_nobody_serves_is_unreachable() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stage = Stage::on(&format!("postgres://tidemill:geheim@127.0.0.1:{port}/app"));

    for command in [&["db", "status"], &["db", "migrate"], &["process", "list"], &["audit", "list"]] {
        let ran = stage.run(command);
        ran.fails("TM0202", 6);
        assert!(ran.stderr.contains(&format!("127.0.0.1:{port}/app")) && !ran.stderr.contains("geheim"));
    }
}

#[test]
fn a_database_that_does_not_answer_is_unreachable_within_the_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://tidemill@{}/app", silent.local_addr().unwrap());

    let stage = Stage::on(&url).with("TIDEMILL_DATABASE_CONNECT_TIMEOUT", "300ms");

    stage.run(&["db", "status"]).fails("TM0202", 6);
}

#[test]
fn a_wrong_url_is_explained() {
    for (url, reason) in [
        ("mysql://host/app", "\"mysql\""),
        ("tidemill.db", "no scheme"),
        ("sqlite://", "no file"),
        ("postgres://one,two/app", "several hosts"),
        ("postgres://host:port/app", "postgres://USER@HOST:PORT/DATABASE"),
    ] {
        let ran = Stage::on(url).run(&["process", "list"]);
        ran.fails("TM0201", 2);
        assert!(ran.stderr.contains(reason), "{url}: {}", ran.stderr);
    }
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_one() {
    let stage = Stage::new();
    fs::write(stage.path("tidemill.toml"), "[process]\nlease = \"15s\"\n  nmae = \"x\"\n").unwrap();

    let ran = stage.run(&["process", "list"]);

    ran.fails("TM0101", 2);
    assert!(ran.stderr.contains("tidemill.toml:3:3") && ran.stderr.contains("did you mean process.name?"));
}

#[test]
fn every_problem_of_a_configuration_is_told_at_once() {
    let stage = Stage::new().with("TIDEMILL_OUTPTU", "json").with("TIDEMILL_PROCESS_LEASE", "15");
    fs::write(stage.path("tidemill.toml"), "[database]\npassword = \"geheim\"\n").unwrap();

    let ran = stage.run(&["config", "check"]);

    for code in ["TM0101", "TM0102", "TM0105"] {
        ran.fails(code, 2);
    }
    assert!(ran.stderr.contains("TIDEMILL_OUTPUT") && !ran.stderr.contains("geheim"));
}

/// A copy of the program that everybody may run, started as somebody without rights.
fn unprivileged(stage: &Stage, arguments: &[&str]) -> Ran {
    if !rustix::process::getuid().is_root() {
        return stage.run(arguments);
    }
    let open =
        |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(stage.folder.path(), 0o755);
    let program = stage.path("program");
    fs::copy(BINARY, &program).unwrap();
    open(&program, 0o755);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    Ran::of(stage.dress(command, arguments).output().unwrap())
}

#[test]
fn files_that_may_not_be_used_are_named() {
    let stage = Stage::new();
    let forbidden = stage.path("forbidden.db");
    fs::write(&forbidden, "").unwrap();
    fs::set_permissions(&forbidden, fs::Permissions::from_mode(0o000)).unwrap();
    let closed = stage.path("closed.toml");
    fs::write(&closed, "").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();

    let database = unprivileged(&stage, &["process", "list", "--database", "sqlite://forbidden.db"]);
    let config = unprivileged(&stage, &["process", "list", "--config", "closed.toml"]);

    database.fails("TM0210", 4);
    assert!(database.stderr.contains("forbidden.db") && database.stderr.contains("Permission denied"));
    config.fails("TM0104", 2);
    assert!(config.stderr.contains("closed.toml"), "{}", config.stderr);
}

#[test]
fn a_folder_without_permission_or_that_is_not_there_is_named() {
    let stage = Stage::new();
    let folder = stage.path("closed");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();

    for (sink, why) in [("absent/x.jsonl", "No such file"), ("closed/x.jsonl", "Permission denied")] {
        let ran = unprivileged(&stage, &["relay", "--sink", &format!("file:{sink}")]);
        ran.fails("TM1402", 2);
        assert!(ran.stderr.contains(&format!("{sink} cannot be written to: ")), "{ran:#?}");
        assert!(ran.stderr.contains(why) && ran.stderr.contains("fix: make the folder"), "{ran:#?}");
    }
    unprivileged(&stage, &["db", "migrate", "--database", "sqlite://closed/x.db"]).fails("TM0210", 4);
    stage.run(&["db", "migrate", "--database", "sqlite://absent/x.db"]).fails("TM0210", 4);
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let stage = Stage::on("sqlite://notes.txt");
    let text = "Not a database, but long enough to be taken for one by somebody careless.\n".repeat(20);
    fs::write(stage.path("notes.txt"), &text).unwrap();

    stage.run(&["db", "migrate"]).fails("TM0215", 5);

    assert_eq!(fs::read_to_string(stage.path("notes.txt")).unwrap(), text);
}

/// Runs the program on a disk of `size` that is full before the program is done; none where the host does not
/// let us mount one.
fn on_a_small_disk(stage: &Stage, size: &str, script: &str) -> Ran {
    let small = stage.path("small");
    fs::create_dir(&small).unwrap();
    let script = format!("mount -t tmpfs -o size={size} none small && cd small && {script}");
    let mut command = Command::new("unshare");
    command.args(["-r", "-m", "sh", "-c", &script]).env("TIDEMILL", BINARY);
    Ran::of(stage.dress(command, &[]).output().unwrap())
}

fn can_mount() -> Option<()> {
    let tried =
        Command::new("unshare").args(["-r", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output().ok()?;
    tried.status.success().then_some(())
}

#[test]
fn a_full_disk_is_told_and_nothing_is_half_written() {
    if skip::require("mount", can_mount()).is_none() {
        return;
    }
    let stage = Stage::new();

    // The same folder again after space was made: the migration starts from nothing.
    let ran = on_a_small_disk(
        &stage,
        "64k",
        &format!(
            "{BINARY} db migrate; echo code $?; mount -o remount,size=8m none . && {BINARY} db migrate && {BINARY} db status"
        ),
    );

    assert!(ran.stderr.contains("error[TM0209]") && ran.stderr.contains("fix: free space"), "{ran:#?}");
    assert!(ran.stdout.contains("code 1\n") && ran.stdout.contains("applied"), "{ran:#?}");
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

#[test]
fn a_limit_on_file_sizes_is_told_like_a_full_disk() {
    let stage = Stage::new();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("trap '' XFSZ; ulimit -f 8; exec {BINARY} db migrate")]);

    Ran::of(stage.dress(command, &[]).output().unwrap()).fails("TM0209", 1);
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_a_reader_that_left_is_not() {
    let stage = Stage::new();
    let shell = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("set -o pipefail; {script}")]);
        Ran::of(stage.dress(command, &[]).output().unwrap())
    };

    shell(&format!("{BINARY} config show > /dev/full")).fails("TM0003", 1);
    shell(&format!("{BINARY} completions bash | head -n 1")).succeeds();
}

#[tokio::test]
async fn a_schema_that_is_missing_on_postgres_is_not_made_without_being_asked() {
    let Some(database) = Scratch::postgres().await else { return };
    let stage = Stage::on(database.url());

    let ran = stage.run(&["process", "list"]);
    ran.fails("TM0206", 5);
    assert!(ran.stderr.contains("tidemill db migrate"));
    assert_eq!(stage.run(&["db", "status"]).code, Some(5));
    stage.run(&["db", "migrate"]).succeeds();
    stage.run(&["process", "list"]).succeeds();
    stage.run(&["db", "status"]).succeeds();
}

#[tokio::test]
async fn a_schema_is_made_or_refused_as_configured() {
    let Some(database) = Scratch::postgres().await else { return };

    Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always").run(&["process", "list"]).succeeds();
    Stage::new().with("TIDEMILL_DATABASE_INIT", "never").run(&["process", "list"]).fails("TM0206", 5);
}

#[tokio::test]
async fn a_user_without_rights_is_told() {
    let Some(database) = Scratch::postgres().await else { return };
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let user = format!("tm_reader_{}", std::process::id());
    tx.execute_for_test(&format!("create role {user} login; revoke create on schema public from public"))
        .await
        .unwrap();
    tx.execute_for_test("alter table tidemill_process rename to hidden").await.unwrap();
    tx.commit().await.unwrap();
    let url = database.url().replace("tidemill@", &format!("{user}@"));

    let ran = Stage::on(&url).run(&["process", "list"]);

    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(&format!("drop role {user}")).await.unwrap();
    tx.commit().await.unwrap();
    ran.fails("TM0213", 4);
}

#[test]
fn usage_errors_have_a_code_and_end_with_two() {
    for arguments in [
        &["frobnicate"][..],
        &[],
        &["db"],
        &["db", "status", "--nope"],
        &["-o", "yaml", "doctor"],
        &["audit", "list", "--limit", "0"],
    ] {
        let ran = Stage::new().run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?} {ran:#?}");
        assert!(ran.stdout.is_empty(), "{ran:#?}");
    }
}

#[test]
fn a_group_without_a_subcommand_lists_its_subcommands() {
    for (arguments, path, known) in [
        (&["lease"][..], "tidemill lease", "\n  list  List leases"),
        (&["job"], "tidemill job", "\n  restart     Restart an execution"),
        (&["-q", "job", "--color", "never"], "tidemill job", "\n  run         Run a job"),
        (&[], "tidemill", "\n  db           Database schema"),
    ] {
        let ran = Stage::new().run(arguments);

        ran.fails("TM0002", 2);
        let (first, last) = (format!("`{path}` needs a subcommand\n"), format!("fix: see `{path} --help`\n"));
        assert!(ran.stderr.starts_with(&format!("error[TM0002]: {first}")), "{ran:#?}");
        assert!(ran.stderr.contains(known) && ran.stderr.ends_with(&last), "{ran:#?}");
        assert!(!ran.stderr.contains("--database"), "the flags are for --help: {ran:#?}");
    }
}

#[test]
fn a_usage_error_names_the_help_of_its_command() {
    for (arguments, path) in [
        (&["render", "cancel", "1"][..], "tidemill render cancel"),
        (&["job", "recover", "1"], "tidemill job recover"),
        (&["token", "create"], "tidemill token create"),
        (&["render", "cancle"], "tidemill render"),
        (&["frobnicate"], "tidemill"),
    ] {
        let ran = Stage::new().run(arguments);

        ran.fails("TM0002", 2);
        assert!(ran.stderr.ends_with(&format!("\n  fix: see `{path} --help`\n")), "{ran:#?}");
        assert!(!ran.stderr.contains("For more information"), "said once is enough: {ran:#?}");
    }
}

#[test]
fn unknown_codes_are_not_found() {
    Stage::new().run(&["explain", "TM9999"]).fails("TM0004", 3);
    Stage::new().run(&["explain", "TM0202"]).succeeds();
}

#[test]
fn delete_is_the_verb_everywhere_and_the_older_words_still_work() {
    let stage = Stage::new();
    for verb in ["delete", "rm", "remove"] {
        stage.run(&["pool", "create", "etl", "--max", "8"]).succeeds();
        stage.run(&["pool", verb, "etl"]).succeeds();
        stage.run(&["schedule", verb, "nightly", "--reason", "gone"]).fails("TM1024", 3);
    }
    for verb in ["delete", "rm", "revoke"] {
        stage.run(&["token", verb, "abcdefgh"]).fails("TM0508", 3);
    }
    for verb in ["delete", "purge"] {
        stage.run(&["job", verb, "--keep", "1"]).succeeds();
    }
}

#[test]
fn a_mistyped_subcommand_never_suggests_one_that_deletes_or_stops() {
    for (arguments, suggested) in [
        (&["pool", "relese", "x"][..], ""),
        (&["pool", "delet", "x"], ""),
        (&["job", "abandn", "1"], ""),
        (&["render", "cancle", "1"], ""),
        (&["pool", "lits"], "list"),
        (&["job", "restrat", "1"], "restart"),
    ] {
        let ran = Stage::new().run(arguments);
        let tip = ran.fails("TM0002", 2).stderr.lines().find(|line| line.contains("similar subcommand"));
        assert_eq!(tip.is_some(), !suggested.is_empty(), "{ran:#?}");
        assert!(tip.is_none_or(|tip| tip.contains(suggested)), "{ran:#?}");
    }
}

#[test]
fn a_mistyped_name_gets_the_nearest_one() {
    let stage = crate::render::known(Stage::new());
    stage.run(&["pool", "create", "ADW", "--max", "8"]).succeeds();
    for command in ["show", "holders", "delete"] {
        let ran = stage.run(&["pool", command, "adw"]);
        assert!(ran.fails("TM1201", 3).stderr.contains("fix: did you mean ADW? "), "{ran:#?}");
    }
    let ran = stage.run(&["pool", "show", "something-else"]);
    assert!(!ran.fails("TM1201", 3).stderr.contains("did you mean"), "{ran:#?}");
    for noun in ["profile", "mapping"] {
        let ran = stage.run(&["render", noun, "delete", "_Main Mini Chip Cuont"]);
        let hint = "did you mean _MAIN Mini Chip Count? ";
        assert!(ran.fails("TM1547", 3).stderr.contains(hint), "{ran:#?}");
    }
    let ran = stage.run(&["render", "submit", "ivey.json", "--composition", "_MAIN Mini Chip Cuont"]);
    assert!(ran.fails("TM1547", 3).stderr.contains("did you mean _MAIN Mini"), "{ran:#?}");
}

#[test]
fn a_job_file_without_its_ending_is_suggested() {
    let stage = Stage::new();
    let file = "job: hello\nsteps: [{ name: say, command: [\"true\"] }]\n";
    fs::write(stage.path("payments.yaml"), file).unwrap();
    for arguments in [["job", "run", "payments"], ["job", "check", "payments"]] {
        let ran = stage.run(&arguments);
        assert!(ran.stderr.contains("fix: did you mean ./payments.yaml?"), "{ran:#?}");
    }
    stage.run(&["job", "run", "payments.yaml"]).succeeds();
    let ran = stage.run(&["job", "show", "helo"]);
    assert!(ran.fails("TM1001", 3).stderr.contains("did you mean hello? "), "{ran:#?}");
}
