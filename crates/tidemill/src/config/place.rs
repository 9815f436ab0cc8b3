//! What a path in a configuration file means: a key, a table of keys, or a table of named tables.

use super::error::{ConfigError, excerpt};
use super::key::{self, Key};
use super::layer::{Form, Given};
use tidemill_domain::alert::rule;
use tidemill_domain::pool::PoolName;

#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// A key; with an alias, the key that it stands for.
    Key(&'static Key, Option<&'static Alias>),
    /// A table whose names are fixed.
    Table,
    /// A table whose tables have names that the user chooses, such as `alert.rules`.
    Section,
    Nothing,
}

pub(super) fn place(path: &str) -> Place {
    if let Some(key) = key::declared().find(|key| below(key.path, path) == Some("")) {
        return Place::Key(key, None);
    }
    if let Some(alias) = ALIASES.iter().find(|alias| alias.path == path) {
        return Place::Key(alias.key(), Some(alias));
    }
    match words_below(path)[..] {
        [] => Place::Nothing,
        ["NAME"] => Place::Section,
        _ => Place::Table,
    }
}

/// The fixed names directly below `table` (the top is ""). At the top, aliases are left out: only users who have them need
/// them.
pub(super) fn names_below(table: &str) -> Vec<&'static str> {
    let mut names = words_below(table);
    names.retain(|name| *name != "NAME" && (!table.is_empty() || *name != "app"));
    names
}

/// The next word of each path below `table`, each once.
fn words_below(table: &str) -> Vec<&'static str> {
    let mut words = Vec::new();
    for path in key::declared().map(|key| key.path).chain(ALIASES.iter().map(|alias| alias.path)) {
        let word = below(path, table).and_then(|rest| rest.split('.').next());
        words.extend(word.filter(|word| !word.is_empty() && !words.contains(word)));
    }
    words
}

/// The rest of a key's path below `table`, if it is below it. NAME matches any name that is allowed there.
fn below(path: &'static str, table: &str) -> Option<&'static str> {
    let mut rest = path;
    for word in table.split('.').filter(|_| !table.is_empty()) {
        let (first, after) = rest.split_once('.').unwrap_or((rest, ""));
        let is_same = if first == "NAME" { is_name_in(path, word) } else { first == word };
        if !is_same {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

/// Sections whose names are those of pools.
const OF_POOLS: [&str; 2] = ["pools.probe", "pools.on_demand"];

fn is_name_in(path: &str, name: &str) -> bool {
    let is_of_pool = OF_POOLS.iter().any(|section| path.starts_with(section));
    if is_of_pool { name.parse::<PoolName>().is_ok() } else { rule::is_name(name) }
}

/// What the names in a section may be.
pub(super) fn name_rule(section: &str) -> &'static str {
    match OF_POOLS.contains(&section) {
        // Pool names may have further characters, but TOML would need quotes for them.
        true => "a pool name here has 1 to 64 of A-Z, a-z, 0-9, _ and -, and starts with a letter or digit",
        false => "a name has 1 to 63 of a-z, 0-9, _ and -, and starts with a letter",
    }
}

/// A name from the Spring configuration of the outbox relay, below `app.outbox.relay`. A file may have both names of a
/// setting if they agree.
#[derive(Debug)]
pub(super) struct Alias {
    path: &'static str,
    of: &'static str,
    /// The unit of its numbers, which is part of its name.
    unit: &'static str,
}

const fn alias(path: &'static str, of: &'static str, unit: &'static str) -> Alias {
    Alias { path, of, unit }
}

static ALIASES: [Alias; 10] = [
    alias("app.outbox.relay.batchSize", "outbox.batch_size", ""),
    alias("app.outbox.relay.fixedDelayMs", "outbox.poll", "ms"),
    alias("app.outbox.relay.initialDelayMs", "outbox.initial_delay", "ms"),
    alias("app.outbox.relay.threadPoolSize", "outbox.senders", ""),
    alias("app.outbox.relay.timeoutSeconds", "outbox.timeout", "s"),
    alias("app.outbox.relay.baseBackoffMs", "outbox.base_backoff", "ms"),
    alias("app.outbox.relay.maxBackoffMs", "outbox.max_backoff", "ms"),
    alias("app.outbox.relay.slowProcessingThresholdMs", "outbox.slow_batch", "ms"),
    alias("app.outbox.relay.instanceId", "outbox.instance_id", ""),
    alias("app.outbox.relay.totalInstances", "outbox.total_instances", ""),
];

impl Alias {
    fn key(&self) -> &'static Key {
        key::find(self.of).expect("an alias names a key")
    }

    /// A value as its key takes it.
    pub(super) fn translated(&self, (text, form): (String, Form)) -> (String, Form) {
        let is_bare_period = !self.unit.is_empty() && form == Form::Bare;
        if is_bare_period { (format!("{text}{}", self.unit), Form::Quoted) } else { (text, form) }
    }

    /// The problem if the same file has another value under the key's own name.
    pub(super) fn clash(&self, by_alias: &Given, by_key: &Given) -> Option<ConfigError> {
        let meaning = |given: &Given| {
            let text = given.text.expose();
            self.key().kind.check(text, given.form).map_err(|fix| (excerpt(text), fix))
        };
        let is_one_file = by_alias.origin.is_same_file(&by_key.origin);
        if !is_one_file || meaning(by_alias) == meaning(by_key) {
            return None;
        }
        let (text, origin) = (by_key.text.expose(), &by_key.origin);
        let why = format!("{} is the same setting and is {text:?} ({origin})", self.of);
        let fix = format!("remove {} or {}", self.path, self.of);
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
            ("pools.on_demand.ADW.hold", "pools.on_demand.NAME.hold"),
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
            "alert.rules.NAME",
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
                "telemetry",
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
        assert_eq!(names_below("connections.shop"), ["url", "password"]);
        assert_eq!((names_below("app"), names_below("app.outbox")), (vec!["outbox"], vec!["relay"]));
        assert!(names_below("proc").is_empty() && names_below("connections").is_empty());
    }

    #[test]
    fn no_alias_is_of_a_secret() {
        for alias in &ALIASES {
            assert!(!alias.key().kind.may_be_secret(), "{}", alias.path);
        }
    }
}
