//! The alerts of `deploy/prometheus`, which promtool checks and plays.

use crate::{read, run, tools, workspace};
use std::fs;

const RULES: &str = "deploy/prometheus/rules.yaml";

#[test]
fn promtool_accepts_the_rules_and_they_fire_as_their_tests_say() {
    let Some(tools) = tools() else { return };
    let promtool = tools.join("promtool");

    run(&promtool, &["check", "rules", "--lint=all", "--lint-fatal", "prometheus/rules.yaml"]).succeeds();
    run(&promtool, &["test", "rules", "prometheus/tests.yaml"]).succeeds();

    let folder = tempfile::tempdir().unwrap();
    let planted = |file: &str, from: &str, to: &str| {
        for name in ["rules.yaml", "tests.yaml"] {
            let text = read(&format!("deploy/prometheus/{name}"));
            assert!(name != file || text.contains(from), "{from}");
            let text = if name == file { text.replace(from, to) } else { text };
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder.path().join(file).display().to_string()
    };
    let broken = planted("rules.yaml", "max by (pool)", "max bye (pool)");
    run(&promtool, &["check", "rules", &broken]).fails("parse error");
    // What the rules are written for: `increase` alone does not see the first event.
    let counter = "tidemill_processes_expired_total";
    let (new, nothing) = (format!("({counter} unless"), format!("({counter} unless {counter} unless"));
    planted("rules.yaml", &new, &nothing);
    let tests = folder.path().join("tests.yaml").display().to_string();
    run(&promtool, &["test", "rules", &tests]).fails("TidemillProcessDied");
    planted("rules.yaml", "> 0.9", "> 0.99");
    run(&promtool, &["test", "rules", &tests]).fails("TidemillPoolFull");
    // After a gap, nothing would be known of the series before it; and after a restart, everything.
    for (from, to) in [("[1d]", "[1s]"), (" unless on (instance) up offset 15m > 0", "")] {
        planted("rules.yaml", from, to);
        run(&promtool, &["test", "rules", &tests]).fails("TidemillJobFailed");
    }
}

#[test]
fn every_alert_has_a_page_that_exists() {
    let text = read(RULES);
    let pages: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("runbook: ")).collect();

    assert_eq!(pages.len(), text.matches("- alert: ").count());
    let missing: Vec<&&str> = pages.iter().filter(|page| !workspace().join(page).exists()).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}
