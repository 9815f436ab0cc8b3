//! What may stand at a path of a configuration file: a key, a table of them, or one of the tables of a section.

use super::check::check;
use super::error::{ConfigError, excerpt};
use super::key::{self, Key};
use super::layer::{Form, Given};
use super::section::{self, Section};

#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// A key; with an alias, the key that it stands for.
    Key(&'static Key, Option<&'static Alias>),
    /// A table whose names are fixed.
    Table,
    /// The table that holds the named ones.
    Section,
    Nothing,
}

pub(super) fn place(path: &str) -> Place {
    let is_at = |key: &&Key| below(key.path, path) == Some("");
    if let Some(key) = with_templates().find(is_at) {
        return Place::Key(key, None);
    }
    if let Some(alias) = ALIASES.iter().find(|alias| alias.path == path) {
        return Place::Key(alias.key(), Some(alias));
    }
    if section_at(path).is_some() {
        return Place::Section;
    }
    let (above, name) = path.rsplit_once('.').unwrap_or_default();
    let is_table = match section_at(above) {
        Some(section) => section.allows(name),
        None => {
            let keys = with_templates().map(|key| key.path);
            keys.chain(ALIASES.iter().map(|alias| alias.path)).any(|known| below(known, path).is_some())
        }
    };
    if is_table { Place::Table } else { Place::Nothing }
}

pub(super) fn section_at(path: &str) -> Option<&'static Section> {
    section::ALL.into_iter().find(|section| section.path == path)
}

/// The names that may stand directly below `table` (the top is ""), as far as they are fixed. At the top nobody is told of
/// aliases: they are for those who have them.
pub(super) fn names_below(table: &str) -> Vec<&'static str> {
    let aliases = ALIASES.iter().filter(|_| !table.is_empty()).map(|alias| alias.path);
    first_words(with_templates().map(|key| key.path).chain(aliases), table)
}

/// The keys of `table`. Sections beside keys are not among them.
pub(super) fn keys_below(table: &str) -> Vec<&'static str> {
    let keys = first_words(key::all().map(|key| key.path), table);
    if keys.is_empty() { names_below(table) } else { keys }
}

fn with_templates() -> impl Iterator<Item = &'static Key> {
    key::all().chain(section::ALL.into_iter().flat_map(|section| section.fields))
}

/// The next word of each path that lies below `table`, each once. What a user may choose is not one of them.
fn first_words(paths: impl Iterator<Item = &'static str>, table: &str) -> Vec<&'static str> {
    let mut words = Vec::new();
    for path in paths {
        let word = below(path, table).and_then(|rest| rest.split('.').next());
        words.extend(word.filter(|word| !matches!(*word, "" | "NAME") && !words.contains(word)));
    }
    words
}

/// What is left of the path of a key below `table`; nothing when it does not lie there. NAME in it is any word.
fn below(path: &'static str, table: &str) -> Option<&'static str> {
    let mut rest = path;
    for word in table.split('.').filter(|_| !table.is_empty()) {
        let (first, after) = rest.split_once('.').unwrap_or((rest, ""));
        if first != word && first != "NAME" {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

/// A name that the document gives to a setting of ours: those below `app.outbox.relay` of its own configuration, as a
/// table. Both names of one thing may be set where they say the same.
#[derive(Debug)]
pub(super) struct Alias {
    path: &'static str,
    /// The path of the key.
    of: &'static str,
    /// The unit that the name tells, which its numbers do not have.
    unit: Option<&'static str>,
}

const fn alias(path: &'static str, of: &'static str, unit: Option<&'static str>) -> Alias {
    Alias { path, of, unit }
}

static ALIASES: [Alias; 10] = [
    alias("app.outbox.relay.batchSize", "outbox.batch_size", None),
    alias("app.outbox.relay.fixedDelayMs", "outbox.poll", Some("ms")),
    alias("app.outbox.relay.initialDelayMs", "outbox.initial_delay", Some("ms")),
    alias("app.outbox.relay.threadPoolSize", "outbox.senders", None),
    alias("app.outbox.relay.timeoutSeconds", "outbox.timeout", Some("s")),
    alias("app.outbox.relay.baseBackoffMs", "outbox.base_backoff", Some("ms")),
    alias("app.outbox.relay.maxBackoffMs", "outbox.max_backoff", Some("ms")),
    alias("app.outbox.relay.slowProcessingThresholdMs", "outbox.slow_batch", Some("ms")),
    alias("app.outbox.relay.instanceId", "outbox.instance_id", None),
    alias("app.outbox.relay.totalInstances", "outbox.total_instances", None),
];

impl Alias {
    fn key(&self) -> &'static Key {
        key::find(self.of).expect("an alias names a key")
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
        let meaning = |given: &Given| {
            let text = given.text.expose();
            check(self.key().kind, text, given.form).map_err(|fix| (excerpt(text), fix))
        };
        let is_one_file = by_alias.origin.is_same_file(&by_key.origin);
        if !is_one_file || meaning(by_alias) == meaning(by_key) {
            return None;
        }
        let (text, origin) = (by_key.text.expose(), &by_key.origin);
        let why = format!("{} is the same setting and is {text:?} ({origin})", self.of);
        let fix = format!("take out {} or {}", self.path, self.of);
        Some(ConfigError::bad_value(self.path, &by_alias.origin, Some(by_alias.text.expose()), why, fix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_place() {
        for (path, expected) in [
            ("alert.rules.slow.for", "alert.rules.NAME.for"),
            ("lambda.keys.etl.secret", "lambda.keys.NAME.secret"),
            ("lambda.function", "lambda.function"),
            ("connections.shop.url", "connections.NAME.url"),
            ("pools.probe.ADW.every", "pools.probe.NAME.every"),
            ("render.keys.k2026.secret", "render.keys.NAME.secret"),
            ("log.level", "log.level"),
            ("app.outbox.relay.batchSize", "outbox.batch_size"),
        ] {
            assert!(matches!(place(path), Place::Key(key, _) if key.path == expected), "{path}");
        }
        for path in ["alert.rules", "connections", "pools.probe"] {
            assert!(matches!(place(path), Place::Section), "{path}");
        }
        for path in [
            "alert",
            "alert.webhooks.pager",
            "connections.shop",
            "pools.probe.ADW",
            "lambda",
            "pools",
            "log",
            "app",
            "app.outbox",
            "app.outbox.relay",
        ] {
            assert!(matches!(place(path), Place::Table), "{path}");
        }
        for path in [
            "pools.probe.-x",
            "connections.Shop",
            "connections.shop.user",
            "alert.rule",
            "alert.rules.Slow",
            "alert.rules.slow.fro",
            "alert.rules.slow.for.x",
            "pools.probes",
            "alerts",
            "alerts.rules",
            "connection",
            "connectionss.a",
            "ap",
            "apps",
            "app.out",
            "app.outbox.relays",
            "app.outbox.relay.batch",
        ] {
            assert!(matches!(place(path), Place::Nothing), "{path}");
        }
    }

    #[test]
    fn no_key_is_also_a_table() {
        for key in key::all() {
            assert!(names_below(key.path).is_empty(), "{}", key.path);
        }
    }

    #[test]
    fn names_are_listed_once_per_table() {
        assert_eq!(
            names_below(""),
            [
                "database",
                "process",
                "server",
                "jobs",
                "pools",
                "outbox",
                "render",
                "lambda",
                "log",
                "output",
                "color",
                "alert",
                "jwt",
                "connections"
            ]
        );
        assert_eq!(names_below("process"), ["name", "lease"]);
        assert_eq!(names_below("lambda"), ["function", "signature", "keys"]);
        assert_eq!(keys_below("lambda"), ["function", "signature"]);
        assert_eq!(names_below("connections.shop"), ["url", "password"]);
        assert_eq!((names_below("app"), names_below("app.outbox")), (vec!["outbox"], vec!["relay"]));
        assert!(names_below("proc").is_empty() && names_below("connections").is_empty());
    }

    #[test]
    fn no_alias_is_of_a_secret() {
        for alias in &ALIASES {
            assert!(!alias.key().may_be_secret(), "{}", alias.path);
        }
    }
}
