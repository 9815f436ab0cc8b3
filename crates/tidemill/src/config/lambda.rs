//! The sections `[lambda.keys.NAME]`: whose signed calls in the form of AWS Lambda the server accepts.

use super::error::ConfigError;
use super::layer::Given;
use super::load::SectionValue;
use super::section::KEYS;
use super::sources::Sources;
use super::table::{Entry, entry, first_origin, names, refuse, secret, shown, text};
use std::collections::BTreeMap;
use tidemill_server::lambda::signature::AccessKey;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LambdaKey {
    /// The name of its table, which the audit log shows.
    pub name: String,
    pub key: AccessKey,
}

/// The keys, and each value as it is shown; what is wrong is added to `problems`.
pub(super) fn settle(
    given: &BTreeMap<String, Given>,
    sources: &Sources,
    problems: &mut Vec<ConfigError>,
) -> (Vec<LambdaKey>, Vec<SectionValue>) {
    let (mut keys, mut values): (Vec<LambdaKey>, Vec<_>) = (Vec::new(), Vec::new());
    for name in names(&KEYS, given) {
        let Some(entry) = entry(&KEYS, &name, Entry::new(), given, sources, problems) else { continue };
        match key(&name, &entry, given, &keys) {
            Ok(key) => {
                values.extend(shown(&KEYS, &name, &entry));
                keys.push(key);
            }
            Err(problem) => problems.push(problem),
        }
    }
    (keys, values)
}

fn key(
    name: &str,
    entry: &Entry,
    given: &BTreeMap<String, Given>,
    others: &[LambdaKey],
) -> Result<LambdaKey, ConfigError> {
    let path = format!("{}.{name}", KEYS.path);
    let bad = |why: String, fix: &str| {
        refuse(path.clone(), &first_origin(&KEYS, name, given), None, why, fix.to_owned())
    };
    let (Some(id), Some(secret)) = (text(entry, "id"), secret(entry, "secret")) else {
        let why = "an access key has an id and a secret, and this one does not".to_owned();
        return Err(bad(why, "add id = \"…\" and secret = \"file:/path\""));
    };
    let key = AccessKey::new(&id, secret.expose())
        .map_err(|error| bad(error.to_string(), "make an id and a secret as AWS does"))?;
    // Of two, nobody could say who has signed.
    if let Some(other) = others.iter().find(|other| other.key.id() == key.id()) {
        return Err(bad(format!("it has the id of {}", other.name), "give each key an id of its own"));
    }
    Ok(LambdaKey { name: name.to_owned(), key })
}
