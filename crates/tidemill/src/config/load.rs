//! Loading: read all layers, check each key, report every problem.

use super::document;
use super::env;
use super::error::ConfigError;
use super::key::{self, Key};
use super::layer::{Form, Given, Layers, Origin};
use super::reader::Reader;
use super::secret::Secret;
use super::settings::{Settings, Top};
use super::sources::{CONFIG_BYTES_MAX, Sources, is_missing, read_file};
use super::{alert, named};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// Each key with a fixed path, in the order of the declarations.
    pub values: Vec<Value>,
    /// Each key of each named table that has a value.
    pub sections: Vec<Value>,
    pub files: Vec<PathBuf>,
    /// The environment variables that hold secrets: those of keys, and those that files refer to.
    pub secret_variables: BTreeSet<String>,
}

/// One key's value, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    pub key: &'static Key,
    /// The whole path; in a named table with its name, such as `alert.rules.slow.above`.
    pub path: String,
    /// The value with secrets as `***`; empty when it is not set and has no default.
    pub shown: String,
    pub origin: Origin,
}

/// Reads the configuration. Overridden values are not checked, but every layer is searched for unknown keys and for
/// secrets in plain text.
///
/// ```
/// # use tidemill::config::{Origin, Output, Sources, load};
/// let sources = Sources {
///     flags: vec![("output", "--output", "json".to_owned())],
///     environment: vec![("TIDEMILL_OUTPUT".to_owned(), "csv".to_owned())],
///     config_file: None,
///     working_folder: "/nowhere".into(),
///     user_folder: None,
///     system_file: "/nowhere/tidemill.toml".into(),
/// };
/// let loaded = load(&sources)?;
/// assert_eq!(loaded.settings.output, Output::Json);
/// # Ok::<(), tidemill::config::ConfigError>(())
/// ```
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let mut layers = Layers::default();
    read_files(sources, &mut layers);
    env::read(&sources.environment, &sources.working_folder, &mut layers);
    read_flags(sources, &mut layers);
    find_jobs_folder(sources, &mut layers);

    let Layers { values: given, files, mut secret_variables, problems } = layers;
    secret_variables.extend(env::secrets(&sources.environment));
    let mut reader = Reader { given: &given, sources, problems, shown: Vec::new() };
    // In the order of the declarations: `values` has the same.
    let (database, process, server) = (reader.table(), reader.table(), reader.table());
    let (jobs, pools) = (reader.table(), reader.table());
    let (outbox, kafka) = (reader.table(), reader.table());
    let (render, lambda) = (reader.table(), reader.table());
    let (telemetry, log) = (reader.table(), reader.table());
    let Top { output, color } = reader.table();
    let values = std::mem::take(&mut reader.shown);
    let settings = Settings {
        database,
        process,
        server,
        jobs,
        pools,
        outbox,
        kafka,
        render,
        lambda,
        telemetry,
        log,
        output,
        color,
        alert: alert::read(&mut reader),
        issuers: named::issuers(&mut reader),
        connections: named::connections(&mut reader),
        lambda_keys: named::lambda_keys(&mut reader),
        probes: named::probes(&mut reader),
        on_demand: named::on_demand(&mut reader),
        routes: named::routes(&mut reader),
        render_keys: named::render_keys(&mut reader),
    };
    match ConfigError::of(reader.problems) {
        Some(error) => Err(error),
        None => Ok(Loaded { settings, values, sections: reader.shown, files, secret_variables }),
    }
}

fn read_files(sources: &Sources, layers: &mut Layers) {
    let user_file = sources.user_folder.as_ref().map(|folder| folder.join("tidemill/config.toml"));
    let (project_file, named_by) = project_file(sources);
    let usual = [Some(sources.system_file.clone()), user_file].into_iter().flatten();
    // A file that is also the project's own, as in the system's folder, is read once.
    let usual = usual.filter(|path| *path != project_file).map(|path| (path, Origin::Default));
    let all: Vec<_> = usual.chain([(project_file.clone(), named_by)]).collect();

    for (path, named_by) in all {
        match read_file(&path, CONFIG_BYTES_MAX) {
            Ok(bytes) => {
                document::read(&path, &bytes, layers);
                layers.files.push(path);
            }
            Err(error) if is_missing(&error) && named_by == Origin::Default => {}
            Err(error) => layers.problems.push(ConfigError::file_unreadable(&path, &named_by, error)),
        }
    }
}

fn project_file(sources: &Sources) -> (PathBuf, Origin) {
    let folder = &sources.working_folder;
    if let Some(path) = &sources.config_file {
        return (folder.join(path), Origin::Flag("--config"));
    }
    match env::find(&sources.environment, env::CONFIG) {
        Some(path) => (folder.join(path), Origin::Env(env::CONFIG.to_owned())),
        None => (folder.join("tidemill.toml"), Origin::Default),
    }
}

/// Without a setting, the folder `jobs` is used if it exists.
fn find_jobs_folder(sources: &Sources, layers: &mut Layers) {
    const PATH: &str = "jobs.folder";
    if !layers.values.contains_key(PATH)
        && sources.working_folder.join("jobs").is_dir()
        && let Some(key) = key::find(PATH)
    {
        let (text, form, origin) = (Secret::new("jobs"), Form::Plain, Origin::Default);
        layers.give(PATH.to_owned(), Given { key, text, form, origin });
    }
}

fn read_flags(sources: &Sources, layers: &mut Layers) {
    for (path, flag, text) in &sources.flags {
        let origin = Origin::Flag(flag);
        match key::find(path) {
            Some(key) => {
                let text = Secret::new(text.as_str());
                layers.give(key.path.to_owned(), Given { key, text, form: Form::Plain, origin });
            }
            None => {
                let why = "the flag sets a key that does not exist".to_owned();
                layers.problems.push(ConfigError::unknown_key(path, &origin, why, None));
            }
        }
    }
}
