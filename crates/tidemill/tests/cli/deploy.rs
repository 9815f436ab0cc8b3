//! The units for systemd, the image and the compose file of renders, tried without any of them: their commands and variables with
//! our binary, and its libraries in a folder.

use crate::compose::{environment, of, texts};
use crate::{BINARY, Stage, workspace};
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::account::{find_program, is_root};
use tidemill_testkit::nexrender::find_home;
use tidemill_testkit::{NexrenderOptions, PrivateNexrender, skip};

const UNIT: &str = "deploy/systemd/tidemill-render-worker.service";

/// The units, by their names.
const UNITS: [&str; 3] = ["tidemill", "tidemill-relay", "tidemill-render-worker"];

/// The worst of ten that `systemd-analyze security` may say, in tenths.
const EXPOSURE_MAX: &str = "25";

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// The settings of a unit.
fn settings(unit: &str) -> BTreeMap<&str, &str> {
    unit.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('=')).collect()
}

/// Whether the program accepts a command with all its flags.
fn is_accepted(arguments: &[&str]) -> bool {
    let ran = Stage::new().run(&[arguments, &["--help"]].concat());
    ran.code == Some(0) && ran.stdout.contains("Usage: tidemill")
}

#[test]
fn the_units_run_what_there_is_where_the_documents_put_it() {
    for name in UNITS {
        let text = read(&format!("deploy/systemd/{name}.service"));
        let unit = settings(&text);
        let words: Vec<&str> = unit["ExecStart"].split(' ').collect();
        let (program, arguments) = words.split_first().unwrap();

        assert!(is_accepted(arguments) && !is_accepted(&[arguments, &["--lisen", "1"]].concat()), "{name}");
        assert!(read("deploy/Dockerfile").contains(&format!(" {program}\n")), "{program}");
        assert_eq!(unit["WorkingDirectory"], format!("/var/lib/{}", unit["StateDirectory"]));
        assert_eq!(unit["EnvironmentFile"], "-/etc/tidemill/environment");
        // The program ends by itself before that.
        assert!(unit["TimeoutStopSec"].parse::<u64>().unwrap() > 25 && unit["KillMode"] == "mixed", "{name}");
        let named: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with("deploy/")).collect();
        assert!(named.iter().all(|path| workspace().join(path).exists()), "{named:?}");
        assert!(read("docs/guide/systemd.md").contains(&format!("{name}.service")), "{name}");
    }
    assert!(read("crates/tidemill/src/system/unix.rs").contains("\"/etc/tidemill/tidemill.toml\""));
}

#[test]
fn the_unit_of_the_render_worker_has_the_mount_of_the_guide() {
    let text = read(UNIT);
    let unit = settings(&text);

    let mount = unit["RequiresMountsFor"];
    assert_eq!(unit["ReadWritePaths"], mount);
    assert!(read("docs/guide/render.md").contains(&format!("--mount {mount} ")), "{mount}");
    assert!(text.contains("tidemill render init\n") && is_accepted(&["render", "init"]));
    assert!(text.contains("tidemill db migrate\n") && is_accepted(&["db", "migrate"]));
    // Without a database each folder would have its own, and the commands come in the order in which they work.
    let at = |part: &str| text.find(part).unwrap();
    assert!(at("TIDEMILL_DATABASE_URL=postgres://") < at("tidemill render init\n"));
    assert!(at("  cp deploy/") < at("  cd /etc/tidemill"), "the path of the first is relative");
}

#[test]
fn the_example_of_an_environment_has_variables_that_there_are() {
    let text = read("deploy/systemd/environment.example");
    let variables =
        text.lines().map(|line| line.trim_start_matches('#')).filter_map(|line| line.split_once('='));
    let variables: Vec<(&str, &str)> = variables.filter(|(name, _)| !name.contains(' ')).collect();
    let stage = variables.iter().fold(Stage::new(), |stage, (name, value)| stage.with(name, value));

    let shown = stage.run(&["config", "show", "--origin", "-o", "csv"]);

    assert!(variables.len() >= 4, "{variables:?}");
    for (name, _) in variables {
        assert!(shown.succeeds().stdout.contains(name), "{name}: {}", shown.stdout);
    }
    assert!(!shown.stdout.contains("change-me"), "{}", shown.stdout);
}

#[test]
fn systemd_understands_the_units_and_finds_them_closed() {
    let Some(analyze) = skip::optional("systemd-analyze", find_program("systemd-analyze")) else { return };
    for name in UNITS {
        let stage = Stage::new();
        let run = |arguments: &[&str], text: &str| {
            // It looks for the program.
            let text = text.replace("/usr/local/bin/tidemill", BINARY);
            let path = stage.path(&format!("{name}.service"));
            fs::write(&path, text).unwrap();
            let ran = Command::new(&analyze).args(arguments).arg(&path).output().unwrap();
            (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
        };
        let verify = |text: &str| run(&["verify", "--man=no", "--recursive-errors=no"], text);
        let threshold = format!("--threshold={EXPOSURE_MAX}");
        let secure = |text: &str| run(&["security", "--offline=yes", "--no-pager", &threshold], text).0;
        let text = read(&format!("deploy/systemd/{name}.service"));

        let (is_fine, told) = verify(&text);

        assert!(is_fine && !told.contains(&format!("{name}.service")), "{told}");
        assert!(verify(&text.replace("Restart=always", "Restrat=always")).1.contains("Restrat"));
        assert!(secure(&text) && !secure(&text.replace("SystemCallFilter=@system-service\n", "")), "{name}");
    }
}

/// Libraries that are in every image of Debian, because its package manager needs them.
const OF_DEBIAN: [&str; 4] = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g"];

/// The libraries that our binary loads, as files.
fn libraries() -> Vec<String> {
    let asked = Command::new("ldd").arg(BINARY).output().unwrap();
    let told = String::from_utf8(asked.stdout).unwrap();
    let words = told.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(str::to_owned).collect()
}

/// The packages that the default image installs.
fn installed(image: &str) -> Vec<&str> {
    let (_, runtime) = image.split_once(" AS runtime\n").unwrap();
    let (_, list) = runtime.split_once("--no-install-recommends ").unwrap();
    list.lines().next().unwrap().trim_end_matches('\\').split_whitespace().collect()
}

#[test]
fn the_image_has_the_libraries_of_the_program() {
    let Some(dpkg) = skip::optional("dpkg", find_program("dpkg-query")) else { return };
    let image = read("deploy/Dockerfile");
    let installed = installed(&image);
    let found = libraries();
    assert!(found.len() > 2, "{found:?}");

    for library in found {
        let name = library.rsplit('/').next().unwrap();
        let asked = Command::new(&dpkg).arg("--search").arg(format!("*/{name}")).output().unwrap();
        let told = String::from_utf8(asked.stdout).unwrap();
        let has = |package: &str| installed.contains(&package) || OF_DEBIAN.contains(&package);
        let is_there = told.lines().filter_map(|line| line.split([':', ' ']).next()).any(has);
        assert!(is_there, "{library} is in none of {installed:?}: {told}");
    }
}

/// The last stage of the image in a folder: the program, its libraries and the user, and nothing that he can write but his home.
#[test]
fn the_image_runs_as_a_user_who_can_write_nothing_but_his_home() {
    let tools = is_root().then(|| find_program("chroot")).flatten();
    let Some(chroot) = skip::optional("chroot", tools) else { return };
    let image = read("deploy/Dockerfile");
    let word =
        |before: &str| image.rsplit(before).next().unwrap().split_whitespace().next().unwrap().to_owned();
    let (user, home) = (word("\nUSER "), word("\nWORKDIR "));
    let (uid, gid) = user.split_once(':').unwrap();
    assert!(
        image
            .contains(&format!("useradd --uid {uid} --gid {gid} --create-home --home-dir {home} tidemill\n"))
    );
    assert!(image.ends_with("\nFROM runtime\n"), "the default image is the small one");
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let inside = |path: &str| root.path().join(path.trim_start_matches('/'));
    for (from, to) in libraries()
        .iter()
        .map(|path| (path.as_str(), path.as_str()))
        .chain([(BINARY, "/usr/local/bin/tidemill")])
    {
        fs::create_dir_all(inside(to).parent().unwrap()).unwrap();
        fs::copy(from, inside(to)).unwrap();
    }
    fs::create_dir_all(inside(&home)).unwrap();
    chown(inside(&home), uid.parse().ok(), gid.parse().ok()).unwrap();
    let run = |database: &str, arguments: &[&str]| {
        let mut command = Command::new(&chroot);
        command.arg(format!("--userspec={user}")).arg(root.path()).args([
            "/usr/local/bin/tidemill",
            "--database",
            database,
        ]);
        command.args(arguments).env_clear().env("TMPDIR", &home).output().unwrap()
    };

    let own = run(&format!("sqlite://{home}/tidemill.db"), &["pool", "create", "ADW", "--max", "10"]);
    let elsewhere = run("sqlite:///usr/local/tidemill.db", &["pool", "list"]);

    assert!(own.status.success(), "{own:?}");
    assert!(!elsewhere.status.success() && !inside("/usr/local/tidemill.db").exists(), "{elsewhere:?}");
}

/// A value of the compose file with its defaults in place of variables.
fn filled(value: &str) -> String {
    let Some((before, rest)) = value.split_once("${") else { return value.to_owned() };
    let (variable, after) = rest.split_once('}').unwrap();
    let default = variable.split_once(":-").map_or("secret", |(_, default)| default);
    format!("{before}{default}{}", filled(after))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_compose_file_of_renders_has_a_worker_that_could_render() {
    let Some(home) = skip::require("nexrender", find_home()) else { return };
    let Some(database) = Scratch::postgres().await else { return };
    let text = read("deploy/compose-render.yaml");
    let documents = Yaml::load_from_str(&text).unwrap();
    let services = &documents[0]["services"];
    let farm = PrivateNexrender::start(&NexrenderOptions {
        secret: "secret".to_owned(),
        ..NexrenderOptions::default()
    });
    let farm = farm.unwrap();
    let nas = farm.output().display().to_string();
    let mut stage = Stage::new();
    for (name, value) in environment(services, "worker") {
        // Where things are is all that differs here.
        let value = match name.as_str() {
            "TIDEMILL_DATABASE_URL" => database.url().to_owned(),
            "TIDEMILL_DATABASE_PASSWORD" if !database.url().contains("tidemill@") => continue,
            "NEXRENDER_API_URL" => {
                assert_eq!(value, "http://nexrender:3000");
                assert!(
                    services.as_mapping_get("nexrender").is_some(),
                    "containers resolve names of services"
                );
                farm.url()
            }
            _ => filled(&value).replace("/mnt/nas", &nas),
        };
        stage = stage.with(&name, &value);
    }
    for folder in ["output", ".staging", ".posters"] {
        fs::create_dir_all(farm.output().join("broadcast").join(folder)).unwrap();
    }
    let command = |service| texts(of(services, service, "command"));
    let migrate = command("migrate");
    stage.run(&migrate.iter().map(String::as_str).collect::<Vec<_>>()).succeeds();

    // Without its file, the NAS could be an empty folder.
    let unmounted = stage.run(&["doctor"]);
    assert!(unmounted.code == Some(1) && unmounted.stdout.contains("TM1537"), "{unmounted:#?}");
    let sentinel = environment(services, "worker")["TIDEMILL_RENDER_MOUNT_SENTINEL"].clone();
    assert!(text.contains(&format!("touch /mnt/nas/broadcast/output/{sentinel}\n")));
    fs::write(farm.output().join("broadcast/output").join(sentinel), "").unwrap();
    let doctor = stage.run(&["doctor"]);

    assert!(doctor.succeeds().stdout.contains("accepts the secret"), "{doctor:#?}");
    let worker = command("worker");
    assert!(is_accepted(&worker.iter().map(String::as_str).collect::<Vec<_>>()), "{worker:?}");
    assert_eq!(
        texts(of(services, "worker", "volumes")).iter().map(|volume| filled(volume)).collect::<Vec<_>>(),
        ["/mnt/nas:/mnt/nas"]
    );
    // The server of nexrender takes its flags, and listens where the worker looks and no other host.
    let nexrender: Vec<String> = command("nexrender").iter().map(|word| filled(word)).collect();
    let version = nexrender[2].strip_prefix("@nexrender/server@").unwrap();
    let server = home.join("node_modules/@nexrender/server");
    assert!(read("xtask/nexrender/package.json").contains(&format!("\"@nexrender/server\": \"{version}\"")));
    assert_eq!(nexrender[..2], ["npx", "--yes"]);
    let mut node = Command::new(find_program("node").unwrap());
    let asked = node.arg(server.join("src/bin.js")).args(&nexrender[3..]).arg("--version").output().unwrap();
    assert!(asked.status.success() && asked.stdout.starts_with(version.as_bytes()), "{asked:?}");
    for service in ["postgres", "nexrender"] {
        let ports = texts(of(services, service, "ports"));
        assert!(ports.iter().all(|port| filled(port).starts_with("127.0.0.1:")), "{ports:?}");
    }
    assert!(
        texts(of(services, "nexrender", "ports"))[0].ends_with(":3000:3000")
            && nexrender.contains(&"--port=3000".to_owned())
    );
}
