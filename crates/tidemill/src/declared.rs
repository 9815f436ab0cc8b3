//! Loads jobs from files: reads them, checks them with the configuration, and builds them. Does not use the database.

use crate::commands::relay::sink::kafka_options;
use crate::config::{Loaded, Origin, Settings, Value};
use crate::report::Failure;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidemill_declare::build::{Building, Reach, job};
use tidemill_declare::model::JobFile;
use tidemill_declare::{
    Diagnostic, Diagnostics, Folder, FolderState, InvalidFile, Known, check_given, folder_state, load_beside,
    load_folder,
};
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::{JobParameters, parameter};
use tidemill_engine::item::storage;
use tidemill_engine::job::{InvalidJobFile, Job, JobError, JobRegistry};
use tidemill_engine::schedule::ScheduleRegistry;
use tidemill_kafka::{KafkaError, KafkaOptions};
use tidemill_store::item::Database;

/// Maximum number of places to show where a parameter is needed.
const PLACES_SHOWN: usize = 5;

/// The folder for unfinished files of object stores.
#[cfg(feature = "objects")]
const SPOOL_FOLDER: &str = "tidemill-spool";

/// The jobs that a command can run, and how another command finds the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) jobs: JobRegistry,
    pub(crate) schedules: ScheduleRegistry,
    files: Vec<JobFile>,
    /// The files that were not loaded.
    invalid: Vec<InvalidFile>,
    /// What `job restart` needs after the id, with a space before it; empty for jobs of the program itself.
    pub(crate) flag: String,
}

impl Definitions {
    /// The jobs and schedules of the program itself.
    pub(crate) fn of(jobs: JobRegistry, schedules: ScheduleRegistry) -> Self {
        Self { jobs, schedules, ..Self::default() }
    }

    /// The job of one file; it may run those of the other files of its folder.
    pub(crate) fn of_file(path: &Path, settings: &Settings, origin: Parameters) -> Result<Self, Failure> {
        let connections = Connections::of(settings, origin)?;
        let known = connections.known(&[]);
        let (file, others) = load_beside(path, &known)?;
        let jobs = JobRegistry::new([connections.build(&file, &others)?])?;
        Ok(Self { jobs, files: vec![file], flag: format!(" --file {}", shown(path)), ..Self::default() })
    }

    /// The job of this name. If its file is invalid, the error lists all mistakes.
    pub(crate) fn job(&self, name: &str) -> Result<&Job, Failure> {
        let is_declared = |file: &&InvalidFile| file.job.as_deref() == Some(name);
        match (self.jobs.get(name), self.invalid.iter().find(is_declared)) {
            (Err(JobError::InvalidFile { .. }), Some(file)) => Err(file.problems.clone().into()),
            (found, _) => Ok(found?),
        }
    }

    /// One line for each file that was not loaded.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.jobs.invalid().iter().map(|InvalidJobFile { path, problems, .. }| {
            let more = match problems.len() {
                0 | 1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            let first = problems.first().map_or("", String::as_str);
            format!("job file {path} was not loaded: {first}{more}; see `tidemill job check {path}`")
        })
    }

    /// Refuses a launch of a declared job with other parameters than it asks for. One that it only turns out to need is
    /// told with the places of the file that do.
    pub(crate) fn check_given(&self, job: &str, parameters: &JobParameters) -> Result<(), Failure> {
        let Some(file) = self.files.iter().find(|file| file.name.value == job) else { return Ok(()) };
        let Err(invalid) = parameter::check(parameters, self.jobs.get(job)?.parameters()) else {
            return Ok(());
        };
        let refusal = LaunchRefusal::ParametersInvalid(invalid);
        let failure = Failure::from(JobError::Refused { job: job.to_owned(), refusal });
        let is_called_required = |name: &str| {
            file.parameters.iter().any(|one| one.value.spec.name == name && one.value.spec.is_required)
        };
        let needs =
            check_given(file, |name| parameters.get(name).is_some() || is_called_required(name)).err();
        let places = needs.iter().flat_map(|needs| needs.problems()).take(PLACES_SHOWN);
        Err(places.fold(failure, |failure, place| failure.because(place.headline())))
    }
}

/// A folder of job files, and what is needed to build their jobs.
#[derive(Debug)]
pub(crate) struct JobFolder {
    pub(crate) path: PathBuf,
    /// The jobs and schedules of the program itself.
    own: Definitions,
    connections: Connections,
    flag: String,
    /// The state of the folder at the last load, and at the last look.
    seen: Mutex<[FolderState; 2]>,
}

impl JobFolder {
    /// None if no folder is configured.
    pub(crate) fn of(own: Definitions, loaded: &Loaded, origin: Parameters) -> Result<Option<Self>, Failure> {
        let Some(path) = loaded.settings.jobs.folder.clone() else { return Ok(None) };
        let connections = Connections::of(&loaded.settings, origin)?;
        let is_flag = |value: &Value| value.path == "jobs.folder" && matches!(value.origin, Origin::Flag(_));
        let flag = match loaded.values.iter().any(is_flag) {
            true => format!(" --jobs {}", shown(&path)),
            false => String::new(),
        };
        Ok(Some(Self { path, own, connections, flag, seen: Mutex::default() }))
    }

    /// The jobs of the program and of all valid files. Invalid files are left out and listed.
    pub(crate) fn load(&self) -> Result<Definitions, Failure> {
        // Before the files are read, so that a later change is noticed.
        let state = folder_state(&self.path).unwrap_or_default();
        let own_jobs = self.own.jobs.names();
        let known = self.connections.known(&own_jobs);
        let Folder { mut files, mut invalid } = load_folder(&self.path, &known)?;
        let mut jobs: Vec<Job> = self.own.jobs.iter().cloned().collect();
        let all = files.clone();
        files.retain(|file| match self.connections.build(file, &all) {
            Ok(job) => {
                jobs.push(job);
                true
            }
            Err(problems) => {
                let (path, job) = (file.path.clone(), Some(file.name.value.clone()));
                invalid.push(InvalidFile { path, job, problems, is_caller: false });
                false
            }
        });
        let invalid_file = |file: &InvalidFile| InvalidJobFile {
            path: file.path.display().to_string(),
            job: file.job.clone(),
            problems: file.problems.problems().iter().map(Diagnostic::headline).collect(),
        };
        let jobs = JobRegistry::new(jobs)?.with_invalid(invalid.iter().map(invalid_file));
        let of_files = files.iter().filter_map(|file| Some(file.schedule.as_ref()?.value.schedule.clone()));
        let schedules = ScheduleRegistry::new(self.own.schedules.iter().cloned().chain(of_files), &jobs)?;
        *self.seen() = [state.clone(), state];
        Ok(Definitions { jobs, schedules, files, invalid, flag: self.flag.clone() })
    }

    /// All jobs and schedules if a file was added, removed or written. A file that is just being written is left for
    /// the next look.
    pub(crate) fn reload(&self) -> io::Result<Option<(JobRegistry, ScheduleRegistry)>> {
        let state = folder_state(&self.path)?;
        let is_due = {
            let [loaded, last] = &mut *self.seen();
            let is_due = state == *last && state != *loaded;
            *last = state;
            is_due
        };
        if !is_due {
            return Ok(None);
        }
        let definitions = self.load().map_err(|failure| io::Error::other(failure.summary()))?;
        let count = definitions.jobs.names().len();
        tracing::info!("job files have changed; {count} jobs are loaded from {}", self.path.display());
        definitions.warnings().for_each(|warning| tracing::error!("{warning}"));
        Ok(Some((definitions.jobs, definitions.schedules)))
    }

    fn seen(&self) -> MutexGuard<'_, [FolderState; 2]> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what stands for a job on a command line is a file.
pub(crate) fn is_file(job: &str) -> Option<PathBuf> {
    let path = Path::new(job);
    let is_yaml =
        path.extension().is_some_and(|end| ["yaml", "yml"].iter().any(|yaml| end.eq_ignore_ascii_case(yaml)));
    (is_yaml || job.contains(std::path::MAIN_SEPARATOR)).then(|| path.to_owned())
}

/// A path as a word of a command.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Where the parameters of what is run come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parameters {
    /// From the command line of this process: whoever gave them can read and write the same files without us.
    Given,
    /// From the database or over HTTP: somebody else may have given them.
    Stored,
}

/// The databases and alert channels that files name, and Kafka.
#[derive(Debug)]
struct Connections {
    databases: BTreeMap<String, Database>,
    names: Vec<String>,
    /// The alert channels.
    channels: Vec<String>,
    /// Only those who read a topic have to care.
    kafka: Result<KafkaOptions, KafkaError>,
    reach: Reach,
}

impl Connections {
    fn of(settings: &Settings, origin: Parameters) -> Result<Self, Failure> {
        let named = settings.connections.iter();
        let named = named.map(|(name, connection)| Ok::<_, Failure>((name.clone(), connection.database()?)));
        let databases = named.collect::<Result<_, _>>()?;
        let reach = match (&settings.jobs.roots, origin) {
            (Some(roots), _) => Reach::Within(roots.clone()),
            (None, Parameters::Given) => Reach::Any,
            (None, Parameters::Stored) => Reach::Named,
        };
        let names = settings.connections.keys().cloned().collect();
        let channels = settings.alert.channels();
        Ok(Self { databases, names, channels, kafka: kafka_options(settings, None), reach })
    }

    fn known<'a>(&'a self, own_jobs: &'a [String]) -> Known<'a> {
        Known {
            connections: &self.names,
            channels: Some(&self.channels),
            own_jobs,
            lacks_objects: !storage::is_installed(),
        }
    }

    fn build(&self, file: &JobFile, jobs: &[JobFile]) -> Result<Job, Diagnostics> {
        let (kafka, reach) = (self.kafka.as_ref(), &self.reach);
        job(file, &Building { connections: &self.databases, kafka, jobs, reach })
    }
}

/// Object stores of this process, for jobs of the program and of files.
#[cfg(feature = "objects")]
pub(crate) fn install_objects(settings: &Settings) {
    let url: Option<tidemill_store::DatabaseUrl> = settings.database.url.expose().parse().ok();
    let folder = match (&settings.jobs.spool, url.as_ref().and_then(tidemill_store::DatabaseUrl::file)) {
        (Some(folder), _) => folder.clone(),
        (None, Some(file)) => file.with_file_name(SPOOL_FOLDER),
        (None, None) => PathBuf::from(SPOOL_FOLDER),
    };
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    storage::install(tidemill_objects::Objects::new(folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_a_name() {
        for file in ["a.yaml", "a.YML", "jobs/a", "./a", "/a.txt"] {
            assert!(is_file(file).is_some(), "{file}");
        }
        for name in ["a", "a.yaml.x", "transfers", "yaml", "a.b"] {
            assert!(is_file(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(shown(Path::new("jobs/a.yaml")), "jobs/a.yaml");
        assert_eq!(shown(Path::new("my jobs/it's")), r"'my jobs/it'\''s'");
    }
}
