//! The names that the document gives to settings of ours: those below `app.outbox.relay` of its own configuration, as a
//! table. Both names of one thing may be set where they say the same.

use super::check;
use super::error::ConfigError;
use super::key::{self, Key};
use super::layer::{Form, Given};

/// The table that holds them.
const TABLE: &str = "app.outbox.relay";

#[derive(Debug)]
pub(super) struct Alias {
    /// Its name in the table.
    name: &'static str,
    /// The path of the key.
    path: &'static str,
    /// The unit that the name tells, which its numbers do not have.
    unit: Option<&'static str>,
}

const fn alias(name: &'static str, path: &'static str, unit: Option<&'static str>) -> Alias {
    Alias { name, path, unit }
}

static ALL: [Alias; 10] = [
    alias("batchSize", "outbox.batch_size", None),
    alias("fixedDelayMs", "outbox.poll", Some("ms")),
    alias("initialDelayMs", "outbox.initial_delay", Some("ms")),
    alias("threadPoolSize", "outbox.senders", None),
    alias("timeoutSeconds", "outbox.timeout", Some("s")),
    alias("baseBackoffMs", "outbox.base_backoff", Some("ms")),
    alias("maxBackoffMs", "outbox.max_backoff", Some("ms")),
    alias("slowProcessingThresholdMs", "outbox.slow_batch", Some("ms")),
    alias("instanceId", "outbox.instance_id", None),
    alias("totalInstances", "outbox.total_instances", None),
];

pub(super) fn find(path: &str) -> Option<&'static Alias> {
    let name = path.strip_prefix(TABLE)?.strip_prefix('.')?;
    ALL.iter().find(|alias| alias.name == name)
}

/// Whether `path` is the table that holds them, or one above it.
pub(super) fn is_table(path: &str) -> bool {
    path == TABLE || TABLE.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
}

/// The names that may stand directly below `table`. At the top nobody is told of them: they are for those who have them.
pub(super) fn names_below(table: &str) -> Vec<&'static str> {
    if table == TABLE {
        return ALL.iter().map(|alias| alias.name).collect();
    }
    let below = TABLE.strip_prefix(table).and_then(|rest| rest.strip_prefix('.'));
    below.and_then(|rest| rest.split('.').next()).into_iter().collect()
}

impl Alias {
    pub(super) fn key(&self) -> &'static Key {
        key::find(self.path).expect("an alias names a key")
    }

    fn whole_path(&self) -> String {
        format!("{TABLE}.{}", self.name)
    }

    /// A value as its key takes it.
    pub(super) fn translated(&self, text: String, form: Form) -> (String, Form) {
        match self.unit {
            Some(unit) if form == Form::Bare => (format!("{text}{unit}"), Form::Quoted),
            _ => (text, form),
        }
    }

    /// What is wrong when the key has a value from the same file under its own name too.
    pub(super) fn clash(&self, by_alias: &Given, by_key: &Given) -> Option<ConfigError> {
        let meaning = |given: &Given| check::check(self.key(), given.text.expose(), given.form);
        let is_one_file = by_alias.origin.is_same_file(&by_key.origin);
        if !is_one_file || meaning(by_alias) == meaning(by_key) {
            return None;
        }
        Some(ConfigError::BadValue {
            name: self.whole_path(),
            origin: Box::new(by_alias.origin.clone()),
            value: Some(super::error::excerpt(by_alias.text.expose())),
            why: format!(
                "{} is the same setting and is {:?} ({})",
                self.path,
                by_key.text.expose(),
                by_key.origin
            ),
            fix: format!("take out {} or {}", self.whole_path(), self.path),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_the_table_is_known_and_no_other() {
        for alias in &ALL {
            assert_eq!(find(&alias.whole_path()).unwrap().name, alias.name);
            assert!(!alias.key().may_be_secret(), "{}", alias.name);
        }
        for path in ["app", "app.outbox", TABLE] {
            assert!(is_table(path) && find(path).is_none(), "{path}");
        }
        for path in ["", "ap", "apps", "app.out", "app.outbox.relays", "app.outbox.relay.batchSize"] {
            assert!(!is_table(path), "{path}");
        }
        assert_eq!((names_below("app"), names_below("app.outbox")), (vec!["outbox"], vec!["relay"]));
        assert!(names_below("").is_empty() && names_below("outbox").is_empty());
    }
}
