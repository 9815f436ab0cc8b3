//! Failures as people and programs see them: what, why, fix, and a stable code.

use crate::config::{ConfigError, Output};
use serde_json::json;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use tidemill_api::pool::PoolRefusal;
use tidemill_declare::{Diagnostic, Diagnostics};
use tidemill_domain::alert::silence::UnknownRule;
use tidemill_domain::code::Code;
use tidemill_domain::job::retention::BadRetention;
use tidemill_engine::EngineError;
use tidemill_engine::job::JobError;
use tidemill_engine::outbox::{RelayError, SinkError, VerifyError};
use tidemill_engine::pool::PoolError;
use tidemill_kafka::KafkaError;
use tidemill_server::ServerError;
use tidemill_store::StoreError;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    what: String,
    why: Vec<String>,
    pub(crate) fix: String,
    others: Vec<Failure>,
    /// The exit code of the program.
    pub(crate) number: u8,
    /// File, line and column, for programs.
    at: Option<Box<serde_json::Value>>,
}

impl Failure {
    pub(crate) fn new(code: Code, what: impl Into<String>, fix: impl Into<String>) -> Self {
        let (what, fix) = (what.into(), fix.into());
        let number = code.exit().number();
        Self { code, what, why: Vec::new(), fix, others: Vec::new(), number, at: None }
    }

    /// With the reason; several lines stay several lines.
    pub(crate) fn because(mut self, why: impl Display) -> Self {
        let why = why.to_string();
        self.why.extend(why.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        self
    }

    /// An error without its own code.
    pub(crate) fn unexpected(what: &str, error: &dyn Error) -> Self {
        Self::new(Code::Unexpected, what, "run it again with -vv and report the output")
            .because(error)
            .because_of(error)
    }

    /// Adds the causes of an error, one per line. A cause that only repeats another one is left out.
    pub(crate) fn because_of(mut self, error: &dyn Error) -> Self {
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            cause = error.source();
            let is_wrapper = cause.is_some_and(|inner| text.contains(&inner.to_string()));
            let is_known = self.what.contains(&text) || self.why.iter().any(|known| known.contains(&text));
            if !is_wrapper && !is_known {
                self.why.push(text);
            }
        }
        self
    }

    /// What and why, on one line.
    pub(crate) fn summary(&self) -> String {
        std::iter::once(&self.what).chain(&self.why).cloned().collect::<Vec<_>>().join(": ")
    }

    pub(crate) fn with_fix(self, fix: String) -> Self {
        Self { fix, ..self }
    }

    /// Overrides the exit code of its code.
    pub(crate) fn ending(self, number: u8) -> Self {
        Self { number, ..self }
    }

    fn text(&self) -> String {
        let (red, bold, off) =
            (anstyle::AnsiColor::Red.on_default().bold(), anstyle::Style::new().bold(), anstyle::Reset);
        let mut text = format!("{red}error[{}]{off}: {bold}{}{off}\n", self.code, printable(&self.what));
        for why in &self.why {
            text.push_str(&format!("  {}\n", printable(why)));
        }
        text.push_str(&format!("  {bold}fix:{off} {}\n", printable(&self.fix)));
        text
    }

    /// The number of mistakes in job files.
    fn total(&self) -> Option<String> {
        let places: Vec<&serde_json::Value> =
            std::iter::once(self).chain(&self.others).filter_map(|one| one.at.as_deref()).collect();
        if self.code != Code::BadJobFile || places.is_empty() {
            return None;
        }
        let files: BTreeSet<String> = places.iter().map(|at| at["file"].to_string()).collect();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let (problems, files) = (places.len(), files.len());
        Some(format!("{problems} problem{} in {files} file{}", plural(problems), plural(files)))
    }

    fn json(&self) -> serde_json::Value {
        let mut object = json!({
            "type": format!("urn:tidemill:error:{}", self.code),
            "title": self.code.title(),
            "detail": self.what,
            "code": self.code.to_string(),
            "remedy": self.fix,
            "exit_code": self.number,
        });
        if !self.why.is_empty() {
            object["why"] = json!(self.why);
        }
        if let Some(at) = &self.at {
            object["at"] = at.as_ref().clone();
        }
        if !self.others.is_empty() {
            object["errors"] = self.others.iter().map(Self::json).collect();
        }
        object
    }
}

/// Replaces control characters, which could rewrite the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Prints a failure to standard error. An error while printing is ignored: the exit code still tells.
pub(crate) fn print(failure: &Failure, output: Output) {
    let mut text = match output {
        Output::Json | Output::Jsonl => format!("{}\n", failure.json()),
        Output::Table | Output::Csv if failure.others.is_empty() => failure.text(),
        Output::Table | Output::Csv => failure.others.iter().map(Failure::text).collect(),
    };
    if let (Some(total), Output::Table | Output::Csv) = (failure.total(), output) {
        text.push_str(&format!("{total}\n"));
    }
    let _exit_code_tells = anstream::stderr().write_all(text.as_bytes());
}

/// For errors that know their code and fix.
macro_rules! failures {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.code(), error.to_string(), error.fix()).because_of(&error)
            }
        })+
    };
}

failures!(StoreError, EngineError, JobError, ServerError, SinkError, RelayError, VerifyError, KafkaError);
failures!(PoolError, PoolRefusal, BadRetention, UnknownRule);

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let one = |problem: &ConfigError| {
            Self::new(problem.code(), problem.to_string(), problem.fix())
                .because(problem.why())
                .because_of(problem)
        };
        match error.problems() {
            [problem] => one(problem),
            problems => Self {
                others: problems.iter().map(one).collect(),
                ..Self::new(error.code(), error.to_string(), error.fix())
            },
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(wrong: Diagnostics) -> Self {
        let fix = "correct each of them; `tidemill job check` lists them";
        Self::of_faults(&wrong, Code::BadJobFile, "the job files have", fix)
    }
}

impl Failure {
    pub(crate) fn output(error: &io::Error) -> Self {
        let fix = "free space where the output goes, or send it elsewhere";
        Self::new(Code::OutputFailed, "the output could not be written", fix).because(error)
    }

    /// All faults of a file, under one code.
    pub(crate) fn of_file(wrong: &Diagnostics, code: Code) -> Self {
        Self::of_faults(wrong, code, "the file has", "correct each of them; nothing of the file was taken")
    }

    fn of_faults(wrong: &Diagnostics, code: Code, who_has: &str, fix: &str) -> Self {
        let one = |problem: &Diagnostic| Self {
            // Not trimmed: the mark is below the faulty text.
            why: problem.details(),
            at: Some(Box::new(json!({
                "file": problem.path.display().to_string(),
                "line": problem.place.map(|place| place.line),
                "column": problem.place.map(|place| place.column),
            }))),
            ..Self::new(code, problem.headline(), problem.fix.clone())
        };
        let mut others: Vec<Self> = wrong.problems().iter().map(one).collect();
        if wrong.left_out() > 0 {
            let what = format!("and {} more faults, which are not shown", wrong.left_out());
            others.push(Self::new(code, what, "correct those above, and look again"));
        }
        match others.len() {
            1 => others.remove(0),
            count => Self { others, ..Self::new(code, format!("{who_has} {count} faults"), fix) },
        }
    }
}
