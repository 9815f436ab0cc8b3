//! `tidemill doctor`: one line per check, with a fix when something is wrong.

mod database;
mod service;

use crate::config::Output;
use crate::context::Context;
use crate::declared::{JobFolder, Parameters};
use crate::output::{Listing, write_stdout};
use crate::report::{Failure, printable};
use serde_json::json;
use std::fmt::Write as _;
use tidemill_domain::code::Exit;
use tidemill_store::StoreError;

#[crate::boxed(?Send)]
pub(super) async fn run(context: &Context) -> Result<Exit, Failure> {
    let mut checks = vec![configuration(context)];
    checks.extend(job_files(context));
    checks.extend(database::look(context).await);
    checks.extend(service::kafka(context).await);
    checks.extend(service::renders(context).await);
    print(&checks, context.output())?;
    let is_healthy = checks.iter().all(|check| !matches!(check.verdict, Verdict::Bad { .. }));
    Ok(if is_healthy { Exit::Ok } else { Exit::Failure })
}

fn configuration(context: &Context) -> Check {
    let files = &context.loaded().files;
    let read = match files.as_slice() {
        [] => "no file; defaults and environment only".to_owned(),
        files => files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    };
    Check { name: "configuration", verdict: Verdict::Good(read) }
}

/// None without a folder of job files.
fn job_files(context: &Context) -> Option<Check> {
    let own = context.definitions().clone();
    let loaded = JobFolder::of(own, context.loaded(), Parameters::Stored)
        .and_then(|folder| folder.map(|folder| Ok((folder.load()?, folder))).transpose());
    let verdict = match loaded {
        Ok(None) => return None,
        Ok(Some((definitions, folder))) => {
            let (count, path) = (definitions.jobs.names().len(), folder.path().display());
            match definitions.warnings().collect::<Vec<_>>().as_slice() {
                [] => Verdict::Good(format!("{count} jobs in {path}")),
                warnings => Verdict::bad(
                    warnings.join("; "),
                    format!("`tidemill job check {path}` lists all mistakes"),
                ),
            }
        }
        Err(failure) => Verdict::of(&failure),
    };
    Some(Check { name: "job files", verdict })
}

struct Check {
    name: &'static str,
    verdict: Verdict,
}

/// The result of a check. A warning and a failure have a fix.
enum Verdict {
    Good(String),
    Warning { detail: String, fix: String },
    Bad { detail: String, fix: String },
}

impl Check {
    fn of(name: &'static str, seen: Result<Verdict, StoreError>) -> Self {
        Self { name, verdict: seen.unwrap_or_else(|error| Verdict::of(&error.into())) }
    }
}

impl Verdict {
    fn warning(detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Warning { detail: detail.into(), fix: fix.into() }
    }

    fn bad(detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Bad { detail: detail.into(), fix: fix.into() }
    }

    fn of(failure: &Failure) -> Self {
        Self::bad(failure.summary(), failure.fix())
    }
}

/// In a table each check has a line, with the fix below it.
fn print(checks: &[Check], output: Output) -> Result<Exit, Failure> {
    let mut listing = Listing::new("tidemill.check/v1", &["check", "status", "detail", "fix"], "No checks.");
    let mut text = String::new();
    for check in checks {
        let (mark, status, detail, fix) = match &check.verdict {
            Verdict::Good(detail) => ("✓", "ok", detail, None),
            Verdict::Warning { detail, fix } => ("!", "warning", detail, Some(fix)),
            Verdict::Bad { detail, fix } => ("✗", "failed", detail, Some(fix)),
        };
        let _infallible = writeln!(text, "{mark} {:<14} {}", check.name, printable(detail));
        if let Some(fix) = fix {
            let _infallible = writeln!(text, "  {:<14} fix: {}", "", printable(fix));
        }
        listing.push(vec![json!(check.name), json!(status), json!(detail), json!(fix)]);
    }
    match output {
        Output::Table => write_stdout(text),
        other => listing.print(other),
    }
}
