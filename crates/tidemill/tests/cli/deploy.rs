//! The unit for systemd and the compose file of renders, tried without either: their commands and variables with our binary.

use crate::compose::{environment, of, texts};
use crate::{BINARY, Stage, workspace};
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::account::find_program;
use tidemill_testkit::nexrender::find_home;
use tidemill_testkit::{NexrenderOptions, PrivateNexrender, skip};

const UNIT: &str = "deploy/systemd/tidemill-render-worker.service";

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
fn the_unit_runs_what_there_is_where_the_documents_put_it() {
    let text = read(UNIT);
    let unit = settings(&text);
    let words: Vec<&str> = unit["ExecStart"].split(' ').collect();
    let (program, arguments) = words.split_first().unwrap();

    assert!(is_accepted(arguments) && !is_accepted(&["render", "worker", "--lisen", "127.0.0.1:1"]));
    assert!(read("deploy/Dockerfile").contains(&format!(" {program}\n")), "{program}");
    assert_eq!(unit["WorkingDirectory"], format!("/var/lib/{}", unit["StateDirectory"]));
    assert!(read("crates/tidemill/src/config/sources.rs").contains("\"/etc/tidemill/tidemill.toml\""));
    assert!(unit["EnvironmentFile"].starts_with("-/etc/tidemill/") && text.contains("cd /etc/tidemill "));
    let mount = unit["RequiresMountsFor"];
    assert_eq!(unit["ReadWritePaths"], mount);
    assert!(read("docs/guide/render.md").contains(&format!("--mount {mount} ")), "{mount}");
    // The worker ends by itself before that.
    assert!(unit["TimeoutStopSec"].parse::<u64>().unwrap() > 22 && unit["KillMode"] == "mixed");
    let named: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with("deploy/")).collect();
    assert!(!named.is_empty() && named.iter().all(|path| workspace().join(path).exists()), "{named:?}");
    assert!(text.contains("tidemill render init\n") && is_accepted(&["render", "init"]));
    assert!(text.contains("tidemill db migrate\n") && is_accepted(&["db", "migrate"]));
    // Without a database each folder would have its own, and the commands come in the order in which they work.
    let at = |part: &str| text.find(part).unwrap();
    assert!(at("TIDEMILL_DATABASE_URL=postgres://") < at("tidemill render init\n"));
    assert!(at("  cp deploy/") < at("  cd /etc/tidemill"), "the path of the first is relative");
}

#[test]
fn systemd_understands_the_unit() {
    let Some(analyze) = skip::optional("systemd-analyze", find_program("systemd-analyze")) else { return };
    let stage = Stage::new();
    let verify = |text: &str| {
        // It looks for the program.
        let text = text.replace("/usr/local/bin/tidemill", BINARY);
        let path = stage.path("tidemill-render-worker.service");
        fs::write(&path, text).unwrap();
        let ran = Command::new(&analyze)
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(&path)
            .output()
            .unwrap();
        (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let text = read(UNIT);

    let (is_fine, told) = verify(&text);

    assert!(is_fine && !told.contains("tidemill-render-worker"), "{told}");
    assert!(verify(&text.replace("Restart=always", "Restrat=always")).1.contains("Restrat"));
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
