//! Spark steps: `spark-submit` as a supervised command, with the units a pool granted.

use crate::job::command::{CommandSpec, command_step};
use crate::job::{Step, StepScope};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::command::{HINT_VARIABLE, PARALLELISM_VARIABLE};
use tidemill_domain::job::spark::{Granted, Submission, is_chatter};

const SUBMIT: &str = "spark-submit";

impl Step {
    /// A step that runs a Spark application with `spark-submit`; otherwise like [`command`](Self::command).
    pub fn spark(
        name: impl Into<String>,
        spark: impl Fn(&StepScope) -> Result<SparkSpec, ItemError> + Send + Sync + 'static,
    ) -> Self {
        let command = move |scope: &StepScope| spark(scope)?.into_command(scope.granted());
        command_step(name.into(), "spark", command)
    }
}

/// A Spark application, and how to submit it.
///
/// ```
/// use tidemill_engine::job::{Granted, Job, SparkSpec, Step};
///
/// let extract = Step::spark("extract", |scope| {
///     Ok(SparkSpec::new("extract.py")
///         .args(["--day".to_owned(), scope.text("day")?])
///         .master("local[*]")
///         .conf("spark.sql.session.timeZone", "UTC")
///         .parallelism(Granted { units: 4, hint: Some("/*+ PARALLEL(4) */".to_owned()) }))
/// });
/// assert!(Job::new("nightly").step(extract).check().is_ok());
/// ```
#[derive(Clone)]
#[must_use]
pub struct SparkSpec {
    submission: Submission,
    submit: Option<PathBuf>,
    command: CommandSpec,
}

impl SparkSpec {
    /// An application: a `.py` or `.jar` file, or its address.
    pub fn new(app: impl Into<String>) -> Self {
        let submission = Submission { app: app.into(), ..Submission::default() };
        Self { submission, submit: None, command: CommandSpec::new(SUBMIT) }
    }

    tidemill_domain::setters! {
        /// Adds arguments of the application.
        pub fn args(self, args: impl IntoIterator<Item = impl Into<String>>) {
            self.submission.args.extend(args.into_iter().map(Into::into))
        }
        /// Where it runs, such as `local[*]`, `yarn` or `spark://host:7077`; the default of the installation otherwise.
        pub fn master(self, master: impl Into<String>) { self.submission.master = Some(master.into()) }
        /// Sets a Spark property. It is visible in the process list, so do not put a password here.
        pub fn conf(self, key: impl Into<String>, value: impl Into<String>) {
            self.submission.conf.insert(key.into(), value.into())
        }
        /// Path of `spark-submit`. By default that of `SPARK_HOME`, or the first in `PATH`.
        pub fn submit(self, program: impl Into<PathBuf>) { self.submit = Some(program.into()) }
        /// How many tasks may run at once, and the hint for the source; by default those of the step's [pool](Step::pool).
        pub fn parallelism(self, granted: Granted) { self.submission.granted = Some(granted) }
        /// Sets options of the `spark-submit` command: environment, folder, timeout, log file.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use tidemill_engine::job::SparkSpec;
        /// let spec = SparkSpec::new("a.py").command(|command| command.timeout(Duration::from_secs(3600)));
        /// ```
        pub fn command(self, more: impl FnOnce(CommandSpec) -> CommandSpec) { self.command = more(self.command) }
    }

    fn into_command(mut self, granted: Option<&Granted>) -> Result<CommandSpec, ItemError> {
        self.submission.granted = self.submission.granted.or_else(|| granted.cloned());
        let fatal = |text: String| ItemError::new(ErrorKind::FATAL, text);
        let arguments = self.submission.arguments().map_err(|refusal| fatal(refusal.to_string()))?;
        let home = self.command.variable("SPARK_HOME").cloned().or_else(|| env::var_os("SPARK_HOME"));
        let path = self.command.variable("PATH").cloned().or_else(|| env::var_os("PATH"));
        let program = find(self.submit.as_deref(), home.as_deref(), path.as_deref()).map_err(fatal)?;
        let mut command = self.command.args(arguments);
        (command.program, command.is_chatter) = (program, is_chatter);
        if let Some(granted) = &self.submission.granted {
            command = command.env(PARALLELISM_VARIABLE, granted.units.to_string());
            if let Some(hint) = &granted.hint {
                command = command.env(HINT_VARIABLE, hint);
            }
        }
        Ok(command)
    }
}

impl fmt::Debug for SparkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SparkSpec({})", self.submission.app)
    }
}

fn find(given: Option<&Path>, home: Option<&OsStr>, path: Option<&OsStr>) -> Result<OsString, String> {
    if let Some(given) = given {
        return found(given.to_owned()).ok_or_else(|| {
            format!("there is no spark-submit at {}; correct the path of the step", given.display())
        });
    }
    if let Some(home) = home.filter(|home| !home.is_empty()) {
        let program = Path::new(home).join("bin").join(SUBMIT);
        let shown = program.display().to_string();
        return found(program)
            .ok_or_else(|| format!("SPARK_HOME is set, but there is no {shown}; correct it or unset it"));
    }
    let mut folders = path.map(env::split_paths).into_iter().flatten();
    folders.find_map(|folder| found(folder.join(SUBMIT))).ok_or_else(|| {
        "spark-submit was not found; install Spark (or `pip install pyspark`) and Java, then set SPARK_HOME, put \
         spark-submit into PATH, or give its path in the step"
            .to_owned()
    })
}

/// Made absolute, because it runs in another folder.
fn found(program: PathBuf) -> Option<OsString> {
    program.is_file().then(|| std::path::absolute(&program).unwrap_or(program).into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_path_comes_before_the_home_and_that_before_the_search() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let bin = folder.path().join(name).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::write(bin.join(SUBMIT), "").unwrap();
            bin
        };
        let (given, home, path) = (place("given").join(SUBMIT), place("home"), place("path"));
        let home_folder = home.parent().unwrap().as_os_str();

        let all = find(Some(&given), Some(home_folder), Some(path.as_os_str()));
        let both = find(None, Some(home_folder), Some(path.as_os_str()));
        let searched = find(None, Some("".as_ref()), Some(path.as_os_str()));

        assert_eq!(all, Ok(given.into_os_string()));
        assert_eq!(both, Ok(home.join(SUBMIT).into_os_string()));
        assert_eq!(searched, Ok(path.join(SUBMIT).into_os_string()));
    }

    #[test]
    fn who_has_no_spark_learns_what_to_do() {
        let nowhere = find(None, None, Some("/nowhere".as_ref())).unwrap_err();
        let wrong_home = find(None, Some("/nowhere".as_ref()), None).unwrap_err();

        assert!(nowhere.contains("pip install pyspark") && nowhere.contains("SPARK_HOME"), "{nowhere}");
        assert!(wrong_home.contains("/nowhere/bin/spark-submit"), "{wrong_home}");
    }
}
