//! Loading: read all layers, settle each key, report every problem.

use super::check::{self, Values};
use super::document;
use super::env;
use super::error::ConfigError;
use super::file;
use super::key::{self, Key};
use super::layer::{Form, Given, Layers, Reference};
use super::origin::Origin;
use super::secret::Secret;
use super::settings::{
    Database, Jobs, Kafka, Lambda, Log, Outbox, Pools, Process, Render, Server, Settings, Top,
};
use super::sources::Sources;
use super::table::Tables;
use super::{alert, named};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// Each key with its value as it may be shown and who set it, in the order of the table.
    pub values: Vec<Value>,
    /// Each key of each section with its value, in the order of the sections.
    pub sections: Vec<Value>,
    /// The configuration files that were read, weakest first.
    pub files: Vec<PathBuf>,
    /// The environment variables that hold secrets: those of keys, and those that files name.
    pub secret_variables: BTreeSet<String>,
}

/// One key's value, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    pub key: &'static Key,
    /// The whole path; for a key of a section, with the name of its table, such as `alert.rules.slow.above`.
    pub path: String,
    /// The value with secrets as `***`; empty when it is not set and has no default.
    pub shown: String,
    pub origin: Origin,
}

/// Reads the configuration. Values that are overridden are not checked, but what is unknown or secret in the
/// open is refused in every layer.
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

    let Layers { values: given, files, mut secret_variables, mut problems } = layers;
    secret_variables.extend(env::secrets(&sources.environment));
    let mut values = Vec::new();
    let mut checked = Values::new();
    for key in key::all() {
        let (value, origin) = match given.get(key.path) {
            Some(given) => match settle(given, key.path, sources) {
                Ok(value) => (Some(value), given.origin.clone()),
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            },
            None => (check::default(key), Origin::Default),
        };
        let shown = value.as_ref().map_or_else(String::new, |value| check::shown(key.kind, value));
        values.push(Value { key, path: key.path.to_owned(), shown, origin });
        checked.extend(value.map(|value| (key.path, value)));
    }
    let mut tables = Tables { given: &given, sources, problems: &mut problems, shown: Vec::new() };
    let alert = alert::read(&mut tables);
    let issuers = named::issuers(&mut tables);
    let connections = named::connections(&mut tables);
    let lambda_keys = named::lambda_keys(&mut tables);
    let probes = named::probes(&mut tables);
    let routes = named::routes(&mut tables);
    let render_keys = named::render_keys(&mut tables);
    let sections = tables.shown;
    if let Some(error) = ConfigError::of(problems) {
        return Err(error);
    }
    let Top { output, color } = Top::read(&checked);
    let settings = Settings {
        database: Database::read(&checked),
        process: Process::read(&checked),
        server: Server::read(&checked),
        jobs: Jobs::read(&checked),
        pools: Pools::read(&checked),
        outbox: Outbox::read(&checked),
        kafka: Kafka::read(&checked),
        render: Render::read(&checked),
        lambda: Lambda::read(&checked),
        log: Log::read(&checked),
        output,
        color,
        alert,
        issuers,
        connections,
        lambda_keys,
        probes,
        routes,
        render_keys,
    };
    Ok(Loaded { settings, values, sections, files, secret_variables })
}

/// Lays the files over each other, weakest first.
fn read_files(sources: &Sources, layers: &mut Layers) {
    let user_file = sources.user_folder.as_ref().map(|folder| folder.join("tidemill/config.toml"));
    let (project_file, named_by) = project_file(sources);
    let usual = [Some(sources.system_file.clone()), user_file].into_iter().flatten();
    // A file that is also the project's own, as in the system's folder, is read once.
    let usual = usual.filter(|path| *path != project_file).map(|path| (path, Origin::Default));
    let all: Vec<_> = usual.chain([(project_file.clone(), named_by)]).collect();

    for (path, named_by) in all {
        match file::read(&path, file::CONFIG_BYTES) {
            Ok(bytes) => {
                document::read(&path, &bytes, layers);
                layers.files.push(path);
            }
            Err(unread) if unread.is_missing() && named_by == Origin::Default => {}
            Err(unread) => layers.problems.push(unread.problem(&path, &named_by)),
        }
    }
}

/// The file of this project, and who named it.
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

/// The checked value of the key at `path`, which for a key of a section is not that of its template.
pub(super) fn settle(given: &Given, path: &str, sources: &Sources) -> Result<Secret, ConfigError> {
    let text = text_of(given, path, sources)?;
    let checked = check::check(given.key.kind, text.expose(), given.form);
    checked.map(Secret::new).map_err(|fix| {
        let allowed = given.key.kind.allowed();
        let value = (!given.key.may_be_secret()).then(|| text.expose());
        let fix = fix.unwrap_or_else(|| format!("set {path} to {allowed}"));
        ConfigError::bad_value(path, &given.origin, value, format!("allowed: {allowed}"), fix)
    })
}

/// The text itself, fetched from where the given value points when it points somewhere.
fn text_of(given: &Given, path: &str, sources: &Sources) -> Result<Secret, ConfigError> {
    let fetch = |path: &Path| {
        let unread = |unread: file::Unread| unread.problem(path, &given.origin);
        file::read_secret(path).map(Secret::new).map_err(unread)
    };
    match (given.reference(), &given.origin) {
        (Some(Reference::File(named)), Origin::File { path: by, .. }) => {
            fetch(&by.parent().unwrap_or(Path::new("")).join(named))
        }
        (Some(Reference::Env(name)), _) => match env::find(&sources.environment, name) {
            Some(text) => Ok(Secret::new(text)),
            None => Err(not_set(given, path, name)),
        },
        (_, Origin::EnvFile(_, file)) => fetch(file),
        _ => Ok(given.text.clone()),
    }
}

fn not_set(given: &Given, path: &str, name: &str) -> ConfigError {
    // Somebody may have put "env:" before the secret itself. Only what looks like a name is repeated.
    let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let variable = if is_name && !name.is_empty() { name } else { "that it names" };
    let why = format!("the environment variable {variable} is not set, or not to UTF-8 text");
    let fix = "set the variable, or correct the name after \"env:\"";
    ConfigError::bad_value(path, &given.origin, None, why, fix)
}
