//! One thing that was looked at, and what was seen: told to people as a line, with the remedy below it.

use crate::config::Output;
use crate::output::{Listing, write_stdout};
use crate::report::{Failure, printable};
use serde_json::{Value, json};
use std::fmt::Write as _;
use tidemill_domain::code::Exit;

pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
}

/// What was seen. What is not in order comes with what helps.
pub(super) enum Verdict {
    Good(String),
    Warning { detail: String, fix: String },
    Bad { detail: String, fix: String },
}

impl Verdict {
    /// Something failed, in the words in which a command would say so.
    pub(super) fn of(failure: &Failure) -> Self {
        Self::Bad { detail: failure.summary(), fix: failure.fix().to_owned() }
    }
}

pub(super) fn print(checks: &[Check], output: Output) -> Result<Exit, Failure> {
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
        listing.push(vec![
            json!(check.name),
            json!(status),
            json!(detail),
            fix.map_or(Value::Null, |fix| json!(fix)),
        ]);
    }
    match output {
        Output::Table => write_stdout(text),
        other => listing.print(other),
    }
}
