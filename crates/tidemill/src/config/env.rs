//! Reading the environment into the layers.

use super::error::{ConfigError, excerpt};
use super::key::{self, Key};
use super::kind::Kind;
use super::layer::{Form, Given, Layers, Origin};
use super::secret::{Secret, holds_password};
use std::path::Path;
use tidemill_domain::job::command;
use tidemill_domain::nearest::nearest;

pub(super) const PREFIX: &str = "TIDEMILL_";
/// Names the configuration file, as `--config` does.
pub(super) const CONFIG: &str = "TIDEMILL_CONFIG";
/// Tests use these to end or freeze a process at a chosen point.
const CRASH_AT: [&str; 2] = ["TIDEMILL_CRASH_AT", "TIDEMILL_FREEZE_AT"];
/// Clients in other languages find the server by these, on hosts where this program runs too.
const CLIENT: &str = "TIDEMILL_CLIENT_";

/// Adds the variables as the next layer. Files that they name are relative to `folder`.
pub(super) fn read(environment: &[(String, String)], folder: &Path, layers: &mut Layers) {
    layers.problems.extend(key::all().filter_map(|key| given_twice(environment, key)));
    read_compat_variables(environment, layers);
    for (name, text) in environment {
        if !name.starts_with(PREFIX) || text.is_empty() {
            continue;
        }
        let with_value = key::all().find(|key| key.env_name() == *name);
        let with_file = key::all().find(|key| key.env_file_name().as_ref() == Some(name));
        let (key, origin) = match (with_value, with_file) {
            (Some(key), _) => (key, Origin::Env(name.clone())),
            (None, Some(key)) => (key, Origin::EnvFile(name.clone(), folder.join(text))),
            (None, None) if is_for_others(name, text) => continue,
            (None, None) => {
                layers.problems.push(unknown(name));
                continue;
            }
        };
        let text = Secret::new(text.as_str());
        layers.give(key.path.to_owned(), Given { key, text, form: Form::Plain, origin });
    }
}

/// The variables of the programs that Tidemill replaces. They are read first, so that ours cover them.
fn read_compat_variables(environment: &[(String, String)], layers: &mut Layers) {
    for key in key::all() {
        let Some(name) = key.compat_variable else { continue };
        let Some(text) = find(environment, name) else { continue };
        if key.path == "database.password" && !is_spring_database(environment) {
            continue;
        }
        // Their numbers have no unit: they are seconds, whether the name says so or not.
        let is_period = matches!(key.kind, Kind::Period(..));
        let is_bare = is_period && text.bytes().all(|byte| byte.is_ascii_digit());
        let text = Secret::new(if is_bare { format!("{text}s") } else { text.to_owned() });
        let origin = Origin::Env(name.to_owned());
        layers.give(key.path.to_owned(), Given { key, text, form: Form::Plain, origin });
    }
}

/// Whether `SPRING_DATASOURCE_URL` names the database. Only then is its password used: for another database it would
/// cover the right password, which may be in a URL or in a file.
fn is_spring_database(environment: &[(String, String)]) -> bool {
    let url = key::find("database.url").expect("there is such a key");
    let is_set = |name: &str| find(environment, name).is_some();
    let is_ours = is_set(&url.env_name()) || url.env_file_name().is_some_and(|name| is_set(&name));
    !is_ours && url.compat_variable.is_some_and(is_set)
}

/// The variables that hold our secrets, by either name, set or not. A database URL counts only if it holds a password;
/// any part of another URL may be a secret.
pub(super) fn secrets(environment: &[(String, String)]) -> impl Iterator<Item = String> {
    let is_secret = |key: &Key, name: &str| match key.kind {
        Kind::Url => find(environment, name).is_some_and(holds_password),
        _ => key.kind.may_be_secret(),
    };
    key::all().flat_map(move |key| {
        let names = std::iter::once(key.env_name()).chain(key.compat_variable.map(str::to_owned));
        names.filter(move |name| is_secret(key, name))
    })
}

/// The value of a variable; an empty one counts as unset.
pub(super) fn find<'a>(environment: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut texts = environment.iter().filter(|(other, _)| other == name).map(|(_, text)| text.as_str());
    texts.find(|text| !text.is_empty())
}

fn given_twice(environment: &[(String, String)], key: &Key) -> Option<ConfigError> {
    let (name, file_name) = (key.env_name(), key.env_file_name()?);
    find(environment, &name)?;
    find(environment, &file_name)?;
    let why = format!("both {name} and {file_name} are set, and they may differ");
    let fix = format!("unset {name} or {file_name}");
    Some(ConfigError::bad_value(key.path, &Origin::Env(file_name), None, why, fix))
}

fn unknown(name: &str) -> ConfigError {
    let names = key::all().flat_map(|key| [Some(key.env_name()), key.env_file_name()]).flatten();
    let names: Vec<String> = names.chain([CONFIG.to_owned()]).collect();
    // All names share the prefix, which would make any two of them look alike.
    let ours = names.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let near = name.strip_prefix(PREFIX).and_then(|name| nearest(name, ours));
    let near = near.map(|near| format!("{PREFIX}{near}"));
    let why = format!("variables that start with {PREFIX} set configuration keys, and there is no such key");
    ConfigError::unknown_key(name, &Origin::Env(excerpt(name)), why, near)
}

/// Whether a variable with our prefix belongs to another part of Tidemill, or to another program.
fn is_for_others(name: &str, text: &str) -> bool {
    name == CONFIG
        || CRASH_AT.contains(&name)
        || name.starts_with("TIDEMILL_TEST_")
        || name.starts_with(CLIENT)
        // Tidemill may run as the command of a step.
        || command::is_step_variable(name)
        || is_from_kubernetes(name, text)
}

/// Kubernetes sets variables in every container for each service of its namespace. For services such as `tidemill` and
/// `tidemill-postgres` they have our prefix.
fn is_from_kubernetes(name: &str, text: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    // The service may have any name, so only the last words can be recognised.
    let words: Vec<&str> = rest.split('_').collect();
    match words.as_slice() {
        [.., "SERVICE", "HOST" | "PORT"] => true,
        [.., "PORT", number, protocol] | [.., "PORT", number, protocol, "PROTO" | "PORT" | "ADDR"]
            if is_port_of(number, protocol) =>
        {
            true
        }
        // A port may have any name too, of several words.
        words if words.windows(3).any(|w| matches!(w, ["SERVICE", "PORT", name] if !name.is_empty())) => true,
        // A misspelt key may end like this too, so the value decides.
        [.., "PORT"] => ["tcp://", "udp://", "sctp://"].iter().any(|scheme| text.starts_with(scheme)),
        _ => false,
    }
}

fn is_port_of(number: &str, protocol: &str) -> bool {
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && matches!(protocol, "TCP" | "UDP" | "SCTP")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "tcp://10.0.0.1:5432";

    #[test]
    fn what_kubernetes_injects_for_any_service_of_ours_is_recognised() {
        for service in
            ["TIDEMILL", "TIDEMILL_POSTGRES", "TIDEMILL_MY_DB_2", "TIDEMILL_PORT", "TIDEMILL_SERVICE"]
        {
            for (tail, text) in [
                ("SERVICE_HOST", "10.0.0.1"),
                ("SERVICE_PORT", "5432"),
                ("SERVICE_PORT_PG", "5432"),
                ("SERVICE_PORT_HTTP_ADMIN", "5432"),
                ("SERVICE_PORT_PORT", "5432"),
                ("PORT", ADDRESS),
                ("PORT", "udp://10.0.0.1:53"),
                ("PORT", "sctp://[fd00::1]:9"),
                ("PORT_5432_TCP", ADDRESS),
                ("PORT_5432_TCP_PROTO", "tcp"),
                ("PORT_5432_TCP_PORT", "5432"),
                ("PORT_53_UDP_ADDR", "10.0.0.1"),
                ("PORT_9_SCTP", "sctp://[fd00::1]:9"),
            ] {
                assert!(is_from_kubernetes(&format!("{service}_{tail}"), text), "{service}_{tail}={text}");
            }
        }
    }

    #[test]
    fn what_only_resembles_it_is_not() {
        for name in [
            "TIDEMILL_SERVICE",
            "TIDEMILL_SERVICE_HOSTS",
            "TIDEMILL_SERVICE_PORTS",
            "TIDEMILL_SERVICE_PORT_",
            "TIDEMILL_MYSERVICE_HOST",
            "TIDEMILL_DATABASE_HOST",
            "TIDEMILL_DATABASE_SERVICE_HOST_X",
            "TIDEMILL_PORT_",
            "TIDEMILL_PORT_HTTP",
            "TIDEMILL_PORT_7790",
            "TIDEMILL_PORT__TCP",
            "TIDEMILL_PORT_7790_TCP_ADDR_X",
            "TIDEMILL_POSTGRES_PORT_5432_HTTP",
            "TIDEMILL_POSTGRES_PORT_PG_TCP",
            "TIDEMILL_POSTGRES_PORT_5432_TCP_HOST",
            "TIDEMILL_SUPPORT",
            "OTHER_PORT",
            "OTHER_SERVICE_HOST",
        ] {
            assert!(!is_from_kubernetes(name, ADDRESS), "{name}");
        }
    }

    #[test]
    fn a_port_without_an_address_is_a_misspelt_key() {
        for name in ["TIDEMILL_PORT", "TIDEMILL_DATABASE_PORT", "TIDEMILL_SERVER_PORT"] {
            for text in
                ["5432", "10.0.0.1:5432", "http://10.0.0.1:80", "tcp:", "TCP://10.0.0.1:80", " tcp://x"]
            {
                assert!(!is_from_kubernetes(name, text), "{name}={text}");
            }
        }
    }

    #[test]
    fn a_key_is_read_also_when_its_value_looks_like_an_address() {
        for key in key::all() {
            let mut layers = Layers::default();

            read(&[(key.env_name(), ADDRESS.to_owned())], Path::new(""), &mut layers);

            assert!(layers.values.contains_key(key.path), "{}", key.path);
        }
    }
}
