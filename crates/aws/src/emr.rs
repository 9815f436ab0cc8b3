//! Spark applications on Amazon EMR: as a step of a cluster, or as a job run of EMR Serverless.

mod cluster;
mod serverless;

use crate::client::{AwsClient, EMR, EMR_SERVERLESS};
use crate::credentials::Environment;
use crate::error::AwsError;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::spark::{Submission, SubmissionRefusal};
use tidemill_engine::SystemClock;
use tidemill_engine::job::{Granted, RemoteError, RemoteErrorKind, RemoteKey, RemoteSpec, Step, StepScope};

const CORES_KEY: &str = "spark.executor.cores";
const MEMORY_KEY: &str = "spark.executor.memory";

/// Cores of an executor if the author does not set them, the most first. EMR Serverless has workers of these sizes.
const CORES: [u32; 3] = [4, 2, 1];

/// The usual memory of an executor is more than EMR Serverless gives to one core.
const MEMORY_OF_ONE_CORE: &str = "6g";

/// A step that runs a Spark application on EMR. It is polled until it ends, and cancelled when the step stops. A restart after
/// a crash goes on with what the run before has started.
pub fn emr_step(
    name: impl Into<String>,
    emr: impl Fn(&StepScope) -> Result<EmrSpec, ItemError> + Send + Sync + 'static,
) -> Step {
    Step::remote(name, "emr", move |scope| {
        emr(scope)?.into_remote(scope.granted(), Environment::of_process())
    })
}

/// Where an application runs. `T` is a text, or what becomes one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EmrPlace<T = String> {
    /// A running cluster, such as `j-2AXXXXXXGAPLF`.
    Cluster {
        /// Its id.
        id: T,
        /// A runtime role for the step, if it has one.
        role: Option<T>,
    },
    /// An application of EMR Serverless, such as `00f1r7hbm1lnq80t`.
    Serverless {
        /// Its id.
        application: T,
        /// ARN of the role that the application runs as.
        role: T,
        /// Where its logs are written, such as `s3://bucket/logs/`.
        logs: Option<T>,
    },
}

impl<T> EmrPlace<T> {
    /// The same place with other texts.
    pub fn try_map<U, E>(&self, make: impl Fn(&T) -> Result<U, E>) -> Result<EmrPlace<U>, E> {
        let some = |text: &Option<T>| text.as_ref().map(&make).transpose();
        Ok(match self {
            Self::Cluster { id, role } => EmrPlace::Cluster { id: make(id)?, role: some(role)? },
            Self::Serverless { application, role, logs } => {
                EmrPlace::Serverless { application: make(application)?, role: make(role)?, logs: some(logs)? }
            }
        })
    }

    /// Its texts.
    pub fn texts(&self) -> impl Iterator<Item = &T> {
        let (first, others) = match self {
            Self::Cluster { id, role } => (id, [role.as_ref(), None]),
            Self::Serverless { application, role, logs } => (application, [Some(role), logs.as_ref()]),
        };
        std::iter::once(first).chain(others.into_iter().flatten())
    }
}

/// A Spark application, and where it runs.
///
/// ```
/// use tidemill_aws::{EmrPlace, EmrSpec, emr_step};
/// use tidemill_engine::job::Job;
///
/// let extract = emr_step("extract", |scope| {
///     let cluster = EmrPlace::Cluster { id: "j-2AXXXXXXGAPLF".to_owned(), role: None };
///     Ok(EmrSpec::new(cluster, "s3://lake/jobs/extract.py").args(["--day".to_owned(), scope.text("day")?]))
/// });
/// assert!(Job::new("nightly").step(extract).check().is_ok());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct EmrSpec {
    place: EmrPlace,
    submission: Submission,
    region: Option<String>,
    timeout: Option<Duration>,
    poll: Option<Duration>,
}

impl EmrSpec {
    /// An application: a `.py` or `.jar` file that the place can read.
    pub fn new(place: EmrPlace, app: impl Into<String>) -> Self {
        let submission = Submission { app: app.into(), ..Submission::default() };
        Self { place, submission, region: None, timeout: None, poll: None }
    }

    tidemill_domain::setters! {
        /// Adds arguments of the application.
        pub fn args(self, args: impl IntoIterator<Item = impl Into<String>>) {
            self.submission.args.extend(args.into_iter().map(Into::into))
        }
        /// Sets a Spark property. It is visible in the console, so do not put a password here.
        pub fn conf(self, key: impl Into<String>, value: impl Into<String>) {
            self.submission.conf.insert(key.into(), value.into())
        }
        /// The region; by default that of `AWS_REGION`.
        pub fn region(self, region: impl Into<String>) { self.region = Some(region.into()) }
        /// How many tasks may run at once, and the hint for the source; by default those of the step's pool.
        pub fn parallelism(self, granted: Granted) { self.submission.granted = Some(granted) }
        /// Cancels the application after this time; the step then fails.
        pub fn timeout(self, timeout: Duration) { self.timeout = Some(timeout) }
        /// The longest pause between two looks at its state; 15 seconds by default.
        pub fn poll(self, pause: Duration) { self.poll = Some(pause) }
    }

    fn into_remote(
        self,
        granted: Option<&Granted>,
        environment: Environment,
    ) -> Result<RemoteSpec, ItemError> {
        let mut submission = self.submission;
        submission.granted = submission.granted.or_else(|| granted.cloned());
        size_executors(&mut submission, &self.place);
        // Refuses what Spark cannot take, before anything is called.
        submission.arguments().map_err(ItemError::fatal)?;
        let service = match &self.place {
            EmrPlace::Cluster { .. } => EMR,
            // The id becomes a part of the path.
            EmrPlace::Serverless { application, .. } if !is_id(application) => {
                let text = format!("{application:?} is not the id of an application of EMR Serverless");
                return Err(ItemError::fatal(text));
            }
            EmrPlace::Serverless { .. } => EMR_SERVERLESS,
        };
        let clock = Arc::new(SystemClock::new());
        let client = AwsClient::new(service, self.region.as_deref(), None, environment, clock)
            .map_err(ItemError::fatal)?;
        let remote = match self.place {
            EmrPlace::Cluster { id, role } => {
                RemoteSpec::new(cluster::ClusterStep { client, cluster: id, role, submission })
            }
            EmrPlace::Serverless { application, role, logs } => {
                let timeout = self.timeout;
                RemoteSpec::new(serverless::JobRun { client, application, role, logs, timeout, submission })
            }
        };
        let remote = self.timeout.into_iter().fold(remote, RemoteSpec::timeout);
        Ok(self.poll.into_iter().fold(remote, RemoteSpec::poll))
    }
}

/// Unlike Spark alone, EMR gives an executor several cores by default, so a grant must say how many. A number that divides the
/// units uses all of them.
fn size_executors(submission: &mut Submission, place: &EmrPlace) {
    let Some(units) = submission.granted.as_ref().map(|granted| granted.units) else { return };
    if submission.conf.contains_key(CORES_KEY) {
        return;
    }
    let cores = CORES.into_iter().find(|cores| units.is_multiple_of(*cores)).unwrap_or(1);
    submission.conf.insert(CORES_KEY.to_owned(), cores.to_string());
    if cores == 1 && matches!(place, EmrPlace::Serverless { .. }) {
        submission.conf.entry(MEMORY_KEY.to_owned()).or_insert_with(|| MEMORY_OF_ONE_CORE.to_owned());
    }
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn unsubmittable(refusal: SubmissionRefusal) -> RemoteError {
    RemoteError { kind: RemoteErrorKind::Refused, text: refusal.to_string() }
}

fn remote(error: AwsError) -> RemoteError {
    let kind = match &error {
        error if error.is_temporary() => RemoteErrorKind::Temporary,
        error if error.is_not_found() => RemoteErrorKind::Gone,
        _ => RemoteErrorKind::Refused,
    };
    RemoteError { kind, text: error.to_string() }
}

/// Pages of a list that are looked through, each of 50 entries.
const PAGES_MAX: usize = 20;

/// Characters of the name of a step or job run.
const NAME_CHARS_MAX: usize = 256;

/// The name of the work: for people, and with the key at its end.
fn work_name(key: &RemoteKey) -> String {
    let end = name_end(key);
    let label: String = key.label.chars().take(NAME_CHARS_MAX - end.len()).collect();
    format!("{label}{end}")
}

fn name_end(key: &RemoteKey) -> String {
    format!(" ({})", key.token)
}

/// The entry of a list whose name ends so.
fn named<'a>(list: &'a Value, field: &str, end: &str) -> Option<&'a Value> {
    let mut entries = list.as_array()?.iter();
    entries.find(|entry| entry[field].as_str().is_some_and(|name| name.ends_with(end)))
}

/// A text that the answer must have.
fn required(text: Option<&str>, what: &'static str) -> Result<String, RemoteError> {
    let missing = || remote(AwsError::Answer { target: "EMR".to_owned(), what });
    text.map(str::to_owned).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(units: u32, conf: &[(&str, &str)], place: &EmrPlace) -> Submission {
        let conf = conf.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let granted = Some(Granted { units, hint: None });
        let mut submission =
            Submission { app: "s3://b/a.py".to_owned(), conf, granted, ..Submission::default() };
        size_executors(&mut submission, place);
        submission
    }

    #[test]
    fn the_cores_of_all_executors_are_what_was_granted() {
        let cluster = EmrPlace::Cluster { id: "j-1".to_owned(), role: None };
        for (units, cores, executors) in [(1, 1, 1), (6, 2, 3), (7, 1, 7), (8, 4, 2), (12, 4, 3)] {
            let settings = sized(units, &[], &cluster).settings().unwrap();
            let found =
                ["spark.executor.cores", "spark.executor.instances", "spark.dynamicAllocation.maxExecutors"]
                    .map(|key| settings[key].parse::<u32>().unwrap());
            assert_eq!(found, [cores, executors, executors], "{units}");
            assert_eq!(cores * executors, units);
            assert!(!settings.contains_key(MEMORY_KEY));
        }
    }

    #[test]
    fn what_the_author_sets_stays_and_one_core_gets_the_memory_of_a_small_worker() {
        let serverless = EmrPlace::Serverless { application: "00a".into(), role: "r".into(), logs: None };
        let own = sized(8, &[(CORES_KEY, "8")], &serverless);
        let small = sized(7, &[], &serverless);
        let large = sized(7, &[(MEMORY_KEY, "2g")], &serverless);

        assert_eq!((own.conf[CORES_KEY].as_str(), own.conf.get(MEMORY_KEY)), ("8", None));
        assert_eq!(small.conf[MEMORY_KEY], "6g");
        assert_eq!(large.conf[MEMORY_KEY], "2g");
    }
}
