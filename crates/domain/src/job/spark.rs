//! Spark: the arguments of `spark-submit`, and how a pool's grant limits an application.
//!
//! A grant is the number of tasks that may run at once, because each task has a session at the source. So it limits the
//! application's cores; the number of partitions is up to the application.

use crate::newtype::check_all;
use std::collections::BTreeMap;

/// Spark setting: how many tasks the application may run at once.
pub const PARALLELISM_KEY: &str = "spark.tidemill.parallelism";

/// Spark setting: the hint for its source, rewritten to the grant.
pub const HINT_KEY: &str = "spark.tidemill.hint";

const OWN_PREFIX: &str = "spark.tidemill.";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted {
    pub units: u32,
    /// The hint for the source, rewritten to the grant.
    pub hint: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Submission {
    /// A `.py` or `.jar` file, or its URL.
    pub app: String,
    pub args: Vec<String>,
    /// The default is the installation's.
    pub master: Option<String>,
    pub conf: BTreeMap<String, String>,
    pub granted: Option<Granted>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmissionRefusal {
    #[error("{0:?} is not an application: it must be a file or a URL")]
    App(String),
    #[error("{0:?} is not the name of a Spark setting: use letters, digits, '.', '_' and '-'")]
    Key(String),
    #[error("the Spark setting {0:?} is set by Tidemill itself")]
    OwnKey(String),
    #[error("the value of {0} contains a line break or NUL, which spark-submit cannot pass on")]
    Value(String),
    #[error("a Spark application needs at least one unit, and none was granted")]
    NothingGranted,
}

impl Submission {
    /// Options, the application, and its arguments.
    pub fn arguments(&self) -> Result<Vec<String>, SubmissionRefusal> {
        if self.app.is_empty() || self.app.starts_with('-') || !is_whole(&self.app) {
            return Err(SubmissionRefusal::App(self.app.clone()));
        }
        let mut arguments = Vec::new();
        if let Some(master) = &self.master {
            if master.is_empty() || !is_whole(master) {
                return Err(SubmissionRefusal::Value("master".to_owned()));
            }
            arguments.extend(["--master".to_owned(), self.limited_master(master)]);
        }
        for (key, value) in self.settings()? {
            arguments.extend(["--conf".to_owned(), format!("{key}={value}")]);
        }
        arguments.push(self.app.clone());
        arguments.extend(self.args.iter().cloned());
        Ok(arguments)
    }

    /// All settings: the author's, Tidemill's, and limits that the author has not set.
    pub fn settings(&self) -> Result<BTreeMap<String, String>, SubmissionRefusal> {
        let is_of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        for (key, value) in &self.conf {
            check_all([
                (!key.is_empty() && key.chars().all(is_of_key), SubmissionRefusal::Key(key.clone())),
                (!key.starts_with(OWN_PREFIX), SubmissionRefusal::OwnKey(key.clone())),
                (is_whole(value), SubmissionRefusal::Value(key.clone())),
            ])?;
        }
        let mut settings = self.conf.clone();
        let Some(Granted { units, hint }) = &self.granted else { return Ok(settings) };
        if *units == 0 {
            return Err(SubmissionRefusal::NothingGranted);
        }
        settings.insert(PARALLELISM_KEY.to_owned(), units.to_string());
        if let Some(hint) = hint {
            if !is_whole(hint) {
                return Err(SubmissionRefusal::Value("the hint".to_owned()));
            }
            settings.insert(HINT_KEY.to_owned(), hint.clone());
        }
        let is_local = |master: &str| master == "local" || master.starts_with("local[");
        if !self.master.as_deref().is_some_and(is_local) {
            let mut limit = |key: &str, value: u32| {
                settings.entry(key.to_owned()).or_insert_with(|| value.to_string());
            };
            let executors = self.executors(*units);
            // Some clusters count cores, others count executors.
            limit("spark.cores.max", *units);
            limit("spark.executor.instances", executors);
            limit("spark.dynamicAllocation.maxExecutors", executors);
        }
        Ok(settings)
    }

    /// The number of executors whose cores stay within the grant. Without a setting an executor has one core.
    fn executors(&self, units: u32) -> u32 {
        let cores = self.conf.get("spark.executor.cores").and_then(|cores| cores.trim().parse().ok());
        (units / cores.unwrap_or(1_u32).max(1)).max(1)
    }

    /// Replaces "all cores" by the grant.
    fn limited_master(&self, master: &str) -> String {
        match (&self.granted, master.strip_prefix("local[*")) {
            (Some(granted), Some(rest)) if rest.starts_with([']', ',']) => {
                format!("local[{}{rest}", granted.units)
            }
            _ => master.to_owned(),
        }
    }
}

fn is_whole(value: &str) -> bool {
    !value.contains(['\n', '\r', '\0'])
}

/// Whether a line of Spark's output is useless in an error message: a log line or a stack frame.
pub fn is_chatter(line: &str) -> bool {
    let is_frame = line.trim_start().starts_with("at ")
        || line.trim_start().starts_with("... ") && line.ends_with("more");
    let is_log = line.split(' ').take(4).any(|word| matches!(word, "INFO" | "WARN" | "DEBUG" | "TRACE"));
    is_frame || is_log || line.trim().is_empty()
}

#[cfg(test)]
mod tests;
