//! The program that is released, in a process of its own with a job file: its peak memory.

use super::case::{Case, Stage};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often to look at the peak, which never falls.
const PAUSE: Duration = Duration::from_millis(2);

/// The cases that a job file describes.
pub(super) const CASES: [Case; 2] = [Case::Copy { chunk: 1000 }, Case::Csv { chunk: 1000, threads: 1 }];

/// Runs the job of a case once, and returns the peak resident memory of the program in MB.
pub(super) fn resident_mb(stage: &Stage, case: Case) -> Result<f64> {
    stage.empty_target()?;
    let folder = stage.csv.parent().context("the file is in a folder")?;
    fs::write(folder.join("copied.yaml"), job(stage, case))?;
    let program = std::env::current_exe()?.with_file_name("tidemill");
    let (log, run) = (folder.join("program.log"), format!("run={}", std::process::id()));
    let name = format!("name={}", case.name());
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TIDEMILL_")) {
        command.env_remove(name);
    }
    command
        .args(["job", "run", "copied.yaml", "-p", &run, "-p", &name])
        .current_dir(folder)
        .env("TIDEMILL_DATABASE_URL", &stage.url)
        .env("TIDEMILL_DATABASE_INIT", "always")
        .stdout(Stdio::null())
        .stderr(File::create(&log)?);
    let mut child =
        command.spawn().context("the program `tidemill` is missing; `cargo xtask bench jobs` builds it")?;
    let mut peak = 0.0_f64;
    let ended = loop {
        peak = peak.max(peak_mb(&child).unwrap_or(0.0));
        match child.try_wait()? {
            Some(ended) => break ended,
            None => std::thread::sleep(PAUSE),
        }
    };
    ensure!(ended.success(), "the program failed: {}", fs::read_to_string(&log)?);
    stage.check_target(case)?;
    Ok(peak)
}

fn job(stage: &Stage, case: Case) -> String {
    let read = match case {
        Case::Csv { .. } => format!("csv: {{ path: \"{}\" }}", stage.csv.display()),
        _ => "sql: { query: \"select * from source order by id\" }".to_owned(),
    };
    format!(
        "job: copied\nparameters: {{ run: {{ type: string }}, name: {{ type: string }} }}\nsteps:\n  - name: all\n    \
         chunk: 1000\n    read: {{ {read} }}\n    write: {{ sql: {{ table: target, mode: copy }} }}\n"
    )
}

/// As far as the kernel still tells it: not of a process that has ended.
fn peak_mb(child: &Child) -> Option<f64> {
    super::work::peak_mb(&fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?)
}
