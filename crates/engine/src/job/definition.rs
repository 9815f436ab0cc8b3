//! A job: its name, steps, flow and options.

use crate::job::{Decision, JobError, JobListener, Step, StepFlow};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::notify::{Notify, NotifyOn};
use tidemill_domain::job::parameter::{ParameterSpec, ParameterType};
use tidemill_domain::job::{JobParameter, JobParameters, check_name};

/// Work that can be restarted: steps in sequence, or in the order that [`on`](Self::on) defines.
///
/// ```
/// use tidemill_engine::item::ItemsReader;
/// use tidemill_engine::job::{Job, Step};
/// # use tidemill_engine::item::ItemsWriter;
///
/// let job = Job::new("hello").step(
///     Step::chunk("double", 100)
///         .reader(ItemsReader::new("numbers", 1..=1000))
///         .process(|n: &i64| Ok(Some(n * 2)))
///         .writer(ItemsWriter::default())
///         .build(),
/// );
/// assert!(job.check().is_ok());
/// ```
#[derive(Clone)]
#[must_use]
pub struct Job {
    name: String,
    pub(super) flow: StepFlow,
    pub(super) listeners: Vec<Arc<dyn JobListener>>,
    parameters: Vec<ParameterSpec>,
    defaults: Vec<(String, JobParameter)>,
    is_restartable: bool,
    on_crash: OnCrash,
    fingerprint: Option<String>,
    notify: Vec<Notify>,
}

tidemill_domain::getters!(Job {
    /// The name.
    &name: str,
    /// The declared parameters.
    &parameters: [ParameterSpec],
    /// Whether an instance that did not complete can be launched again.
    is_restartable: bool,
});

impl Job {
    /// A job without steps; add them with [`step`](Self::step).
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            flow: StepFlow::new(),
            listeners: Vec::new(),
            parameters: Vec::new(),
            defaults: Vec::new(),
            is_restartable: true,
            on_crash: OnCrash::Fail,
            fingerprint: None,
            notify: Vec::new(),
        }
    }

    /// A job with an existing flow.
    pub fn of(name: impl Into<String>, flow: StepFlow) -> Self {
        Self { flow, ..Self::new(name) }
    }

    tidemill_domain::setters! {
        /// Adds a step after the others.
        pub fn step(self, step: Step) { self.flow = self.flow.step(step) }
        /// Adds a decision; see [`StepFlow::decision`].
        pub fn decision(
            self,
            name: impl Into<String>,
            decide: impl Fn(&Decision<'_>) -> Result<String, ItemError> + Send + Sync + 'static,
        ) {
            self.flow = self.flow.decision(name, decide)
        }
        /// Adds a flow that is recorded as a step; see [`StepFlow::flow`].
        pub fn flow(self, name: impl Into<String>, flow: StepFlow) { self.flow = self.flow.flow(name, flow) }
        /// Adds flows that run concurrently; see [`StepFlow::split`].
        pub fn split(self, name: impl Into<String>, flows: impl IntoIterator<Item = StepFlow>) {
            self.flow = self.flow.split(name, flows)
        }
        /// Sets the target for exit codes of the step `from` that match `pattern` (`*` any characters, `?` one). The most
        /// specific pattern wins. A step with transitions has only these.
        ///
        /// ```
        /// # use tidemill_engine::job::{Job, Step};
        /// # let step = |name: &str| Step::tasklet(name, |_| async { Ok(()) });
        /// use tidemill_domain::job::flow::Target;
        ///
        /// let job = Job::new("nightly")
        ///     .step(step("load"))
        ///     .step(step("report"))
        ///     .step(step("repair"))
        ///     .on("load", "FAILED", Target::To("repair".into()))
        ///     .on("load", "*", Target::Next)
        ///     .on("report", "*", Target::End(None));
        /// assert!(job.check().is_ok());
        /// ```
        pub fn on(self, from: impl Into<String>, pattern: impl Into<String>, to: Target) {
            self.flow = self.flow.on(from, pattern, to)
        }
        /// Adds a listener.
        pub fn listener(self, listener: impl JobListener + 'static) { self.listeners.push(Arc::new(listener)) }
        /// Declares a parameter. Once one is declared, undeclared ones are refused.
        pub fn parameter(self, parameter: ParameterSpec) { self.parameters.push(parameter) }
        /// Declares a required, identifying text.
        pub fn required_text(self, name: impl Into<String>) {
            self.parameters.push(ParameterSpec::required(name, ParameterType::Text))
        }
        /// Declares a required, identifying whole number.
        pub fn required_long(self, name: impl Into<String>) {
            self.parameters.push(ParameterSpec::required(name, ParameterType::Long))
        }
        /// Declares a required, identifying number.
        pub fn required_double(self, name: impl Into<String>) {
            self.parameters.push(ParameterSpec::required(name, ParameterType::Double))
        }
        /// Declares a required, identifying date.
        pub fn required_date(self, name: impl Into<String>) {
            self.parameters.push(ParameterSpec::required(name, ParameterType::Date))
        }
        /// Declares a required, identifying time of day.
        pub fn required_time(self, name: impl Into<String>) {
            self.parameters.push(ParameterSpec::required(name, ParameterType::Time))
        }
        /// Declares a required, identifying date with time.
        pub fn required_date_time(self, name: impl Into<String>) {
            self.parameters.push(ParameterSpec::required(name, ParameterType::DateTime))
        }
        /// Sets the default of a parameter. A launch fills it in; a restart uses the same value.
        pub fn default_parameter(self, name: impl Into<String>, parameter: JobParameter) {
            self.defaults.push((name.into(), parameter))
        }
        /// Allows each instance to be launched only once.
        pub fn not_restartable(self) { self.is_restartable = false }
        /// What happens when the process that runs it dies. By default the execution fails, and an operator decides.
        pub fn on_crash(self, on_crash: OnCrash) { self.on_crash = on_crash }
        /// Notifies an alert channel of the configuration when it ends. The notice is stored with the end, and a server
        /// delivers it.
        pub fn notify(self, on: NotifyOn, to: impl Into<String>) {
            self.notify.push(Notify { on, to: to.into() })
        }
        /// Identifies the definition, for example by version or hash. A restart with another one is refused unless
        /// accepted, and processes run only partitions of the same definition.
        pub fn fingerprint(self, fingerprint: impl Into<String>) { self.fingerprint = Some(fingerprint.into()) }
    }

    /// All steps in order, including those of inner flows.
    pub fn steps(&self) -> Vec<&Step> {
        self.flow.steps()
    }

    pub(crate) fn with_defaults(&self, parameters: &JobParameters) -> JobParameters {
        let mut all = parameters.clone();
        for (name, parameter) in &self.defaults {
            if all.get(name).is_none() {
                let JobParameter { value, is_identifying } = parameter.clone();
                all = if is_identifying {
                    all.with(name, value)
                } else {
                    all.with_non_identifying(name, value)
                };
            }
        }
        all
    }

    /// What happens when the process that runs it dies.
    pub fn crash_policy(&self) -> OnCrash {
        self.on_crash
    }

    pub(crate) fn notifies(&self) -> &[Notify] {
        &self.notify
    }

    /// The fingerprint of the definition, if it has one.
    pub fn definition(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// The worker step of this name.
    pub(crate) fn worker(&self, name: &str) -> Option<&Step> {
        self.steps().into_iter().filter_map(Step::worker).find(|worker| worker.name() == name)
    }

    /// Checks that the job can run.
    pub fn check(&self) -> Result<(), JobError> {
        let bad = |why: String| JobError::BadDefinition { job: self.name.clone(), why };
        check_name(&self.name).map_err(|error| bad(format!("its name: {error}")))?;
        if self.steps().is_empty() {
            return Err(bad("it has no step".into()));
        }
        self.flow.check(&mut BTreeSet::new()).map_err(bad)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).field("steps", &self.steps()).finish_non_exhaustive()
    }
}

/// A job file that was not loaded because of its mistakes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidJobFile {
    /// Path of the file.
    pub path: String,
    /// The job that it declares, if that can be read.
    pub job: Option<String>,
    /// The mistakes, each as `FILE:LINE:COLUMN: WHAT`; never empty.
    pub problems: Vec<String>,
}

/// The jobs of a program, by name, and the job files that were not loaded. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct JobRegistry {
    jobs: Arc<BTreeMap<String, Job>>,
    invalid: Arc<[InvalidJobFile]>,
}

impl JobRegistry {
    /// Checks the jobs, whose names must be unique.
    pub fn new(jobs: impl IntoIterator<Item = Job>) -> Result<Self, JobError> {
        let mut known = BTreeMap::new();
        for job in jobs {
            job.check()?;
            let name = job.name.clone();
            if known.insert(name.clone(), job).is_some() {
                return Err(JobError::BadDefinition { job: name, why: "two jobs have this name".into() });
            }
        }
        Ok(Self { jobs: Arc::new(known), invalid: Arc::default() })
    }

    /// Adds files that were not loaded. A launch of their jobs fails with their first mistake.
    #[must_use]
    pub fn with_invalid(self, files: impl IntoIterator<Item = InvalidJobFile>) -> Self {
        Self { invalid: files.into_iter().collect(), ..self }
    }

    /// The job files that were not loaded.
    pub fn invalid(&self) -> &[InvalidJobFile] {
        &self.invalid
    }

    /// The job of this name.
    pub fn get(&self, name: &str) -> Result<&Job, JobError> {
        self.jobs.get(name).ok_or_else(|| {
            let name = name.to_owned();
            match self.invalid.iter().find(|file| file.job.as_ref() == Some(&name)) {
                Some(InvalidJobFile { path, problems, .. }) => {
                    let problem = problems.first().cloned().unwrap_or_default();
                    JobError::InvalidFile { job: name, path: path.clone(), problem }
                }
                None => JobError::UnknownJob { name, known: self.names() },
            }
        })
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.jobs.keys().cloned().collect()
    }

    /// All jobs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// Whether there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}
