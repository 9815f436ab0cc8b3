//! Reading the environment into the layers.

use super::error::{ConfigError, excerpt};
use super::key::{self, Key};
use super::layer::{Form, Given, Layers};
use super::nearest::nearest;
use super::origin::Origin;
use super::secret::Secret;
use std::path::Path;

/// What the names of our variables begin with.
pub(super) const PREFIX: &str = "TIDEMILL_";
/// The variable that names the configuration file, as `--config` does.
pub(super) const CONFIG: &str = "TIDEMILL_CONFIG";
/// The variable by which a test makes a process die at a chosen place.
const CRASH_AT: &str = "TIDEMILL_CRASH_AT";

/// Lays the variables over what is there. Files that they name are seen from `folder`.
pub(super) fn read(environment: &[(String, String)], folder: &Path, layers: &mut Layers) {
    for key in key::ALL.iter().copied() {
        if let Some(problem) = given_twice(environment, key) {
            layers.problems.push(problem);
        }
    }
    for (name, text) in environment {
        if !name.starts_with(PREFIX) || text.is_empty() || is_for_others(name) {
            continue;
        }
        let with_value = key::ALL.iter().find(|key| key.env_name() == *name);
        let with_file = key::ALL.iter().find(|key| key.env_file_name().as_ref() == Some(name));
        let (key, origin) = match (with_value, with_file) {
            (Some(key), _) => (key, Origin::Env(name.clone())),
            (None, Some(key)) => (key, Origin::EnvFile(name.clone(), folder.join(text))),
            (None, None) => {
                layers.problems.push(unknown(name));
                continue;
            }
        };
        layers.give(Given { key, text: Secret::new(text.as_str()), form: Form::Plain, origin });
    }
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
    Some(ConfigError::BadValue {
        name: key.path.to_owned(),
        value: None,
        why: format!("both {name} and {file_name} are set, and they may differ"),
        fix: format!("unset {name} or {file_name}"),
        origin: Box::new(Origin::Env(file_name)),
    })
}

fn unknown(name: &str) -> ConfigError {
    let mut names: Vec<String> = key::ALL.iter().map(|key| key.env_name()).collect();
    names.extend(key::ALL.iter().filter_map(|key| key.env_file_name()));
    names.push(CONFIG.to_owned());
    // All names share the prefix, which would make any two of them look alike.
    let ours = names.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let near = name.strip_prefix(PREFIX).and_then(|name| nearest(name, ours));
    ConfigError::UnknownKey {
        name: excerpt(name),
        origin: Box::new(Origin::Env(excerpt(name))),
        why: format!("names that begin with {PREFIX} belong to the configuration, and it has no such key"),
        nearest: near.map(|near| format!("{PREFIX}{near}")),
    }
}

/// Whether a variable with our prefix is read elsewhere, or is not ours in spite of it.
fn is_for_others(name: &str) -> bool {
    name == CONFIG || name == CRASH_AT || name.starts_with("TIDEMILL_TEST_") || is_from_kubernetes(name)
}

/// Kubernetes tells every container the address of each service of its namespace, so a service called
/// `tidemill` leads to variables with our prefix.
fn is_from_kubernetes(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    if matches!(rest, "SERVICE_HOST" | "SERVICE_PORT" | "PORT") || rest.starts_with("SERVICE_PORT_") {
        return true;
    }
    let mut parts = rest.split('_');
    let is_port = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next() == Some("PORT")
        && parts.next().is_some_and(is_port)
        && parts.next().is_some_and(|protocol| matches!(protocol, "TCP" | "UDP" | "SCTP"))
        && parts.next().is_none_or(|last| matches!(last, "PROTO" | "PORT" | "ADDR"))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_injects_is_told_from_what_it_does_not() {
        for name in [
            "TIDEMILL_SERVICE_HOST",
            "TIDEMILL_SERVICE_PORT",
            "TIDEMILL_SERVICE_PORT_HTTP",
            "TIDEMILL_PORT",
            "TIDEMILL_PORT_7790_TCP",
            "TIDEMILL_PORT_7790_TCP_PROTO",
            "TIDEMILL_PORT_7790_TCP_PORT",
            "TIDEMILL_PORT_53_UDP_ADDR",
        ] {
            assert!(is_from_kubernetes(name), "{name}");
        }
        for name in [
            "TIDEMILL_SERVICE",
            "TIDEMILL_SERVICE_HOSTS",
            "TIDEMILL_SERVICE_PORTS",
            "TIDEMILL_PORT_",
            "TIDEMILL_PORT_HTTP",
            "TIDEMILL_PORT_7790",
            "TIDEMILL_PORT_7790_TCP_ADDR_X",
            "TIDEMILL_PORT_7790_HTTP",
            "OTHER_PORT",
        ] {
            assert!(!is_from_kubernetes(name), "{name}");
        }
    }
}
