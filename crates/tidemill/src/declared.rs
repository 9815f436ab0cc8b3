//! Jobs that are declared in files: read, checked with what the configuration says, and built. The database is not
//! touched.

use crate::commands::relay::sink::kafka_options;
use crate::config::Settings;
use crate::report::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tidemill_declare::build::{Building, Reach, job};
use tidemill_declare::model::JobFile;
use tidemill_declare::{Known, check, check_all, check_given, load_beside, load_folder};
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::{JobParameters, parameter};
use tidemill_engine::job::{Job, JobError, JobRegistry};
use tidemill_engine::schedule::Schedule;
use tidemill_kafka::{KafkaError, KafkaOptions};
use tidemill_store::item::Database;

/// So many places tell that a parameter is needed.
const PLACES_SHOWN: usize = 5;

/// The jobs that a command can run, and how another command finds the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) jobs: JobRegistry,
    /// The files of those that are declared.
    files: Vec<JobFile>,
    /// What `job restart` needs behind the id, a blank before it; nothing for jobs of the program itself.
    flag: String,
}

impl Definitions {
    pub(crate) fn of(jobs: JobRegistry) -> Self {
        Self { jobs, ..Self::default() }
    }

    /// These, and those of all files of a folder. All that is wrong with them is told at once.
    pub(crate) fn with_folder(
        self,
        folder: &Path,
        settings: &Settings,
        origin: Parameters,
    ) -> Result<Self, Failure> {
        let files = load_folder(folder)?;
        let connections = Connections::of(settings, origin)?;
        check_all(&files, &connections.names())?;
        let jobs = files.iter().map(|file| connections.build(file, &files)).collect::<Result<Vec<_>, _>>()?;
        let jobs = JobRegistry::new(self.jobs.iter().cloned().chain(jobs))?;
        Ok(Self { jobs, files, flag: format!(" --jobs {}", shown(folder)) })
    }

    /// The job of one file; it may run those of the other files of its folder.
    pub(crate) fn of_file(path: &Path, settings: &Settings, origin: Parameters) -> Result<Self, Failure> {
        let (file, others) = load_beside(path)?;
        let connections = Connections::of(settings, origin)?;
        check(&file, &Known { connections: &connections.names(), jobs: &others })?;
        let job = connections.build(&file, &others)?;
        let jobs = JobRegistry::new([job])?;
        Ok(Self { jobs, files: vec![file], flag: format!(" --file {}", shown(path)) })
    }

    /// When the declared jobs are launched by themselves.
    pub(crate) fn schedules(&self) -> impl Iterator<Item = Schedule> {
        let of_files = self.files.iter().filter_map(|file| file.schedule.as_ref());
        of_files.map(|schedule| schedule.value.schedule.clone())
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
        Err(places.fold(failure, |failure, place| failure.because(&place.headline())))
    }

    /// The name of the job, where there is only one.
    pub(crate) fn only(&self) -> Option<String> {
        let mut names = self.jobs.names();
        (names.len() == 1).then(|| names.remove(0))
    }

    /// What `job restart` needs behind the id, a blank before it.
    pub(crate) fn flag(&self) -> &str {
        &self.flag
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

/// The databases that files name, and Kafka.
struct Connections {
    databases: BTreeMap<String, Database>,
    /// Only those who read a topic have to care.
    kafka: Result<KafkaOptions, KafkaError>,
    reach: Reach,
}

impl Connections {
    fn of(settings: &Settings, origin: Parameters) -> Result<Self, Failure> {
        let named = settings
            .connections
            .iter()
            .map(|(name, connection)| Ok::<_, Failure>((name.clone(), connection.database()?)));
        let databases = named.collect::<Result<_, _>>()?;
        let reach = match (&settings.jobs.roots, origin) {
            (Some(roots), _) => Reach::Within(roots.clone()),
            (None, Parameters::Given) => Reach::Any,
            (None, Parameters::Stored) => Reach::Named,
        };
        Ok(Self { databases, kafka: kafka_options(settings, None), reach })
    }

    fn names(&self) -> Vec<String> {
        self.databases.keys().cloned().collect()
    }

    fn build(&self, file: &JobFile, jobs: &[JobFile]) -> Result<Job, Failure> {
        let (kafka, reach) = (self.kafka.as_ref(), &self.reach);
        Ok(job(file, &Building { connections: &self.databases, kafka, jobs, reach })?)
    }
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
