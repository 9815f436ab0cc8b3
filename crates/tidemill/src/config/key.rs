//! What a key of the configuration is, and what its value may be. The keys are declared in `settings.rs`.
//!
//! Every key is a scalar; its path is both its place in a TOML file and, in capitals, its environment
//! variable.

use super::settings::TABLES;
use std::time::Duration;
use tidemill_domain::duration;
use tidemill_domain::outbox::instance;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A database URL. It may hold a password, and then it is treated as a secret.
    Url,
    /// A text that is secret as a whole.
    Secret,
    Text {
        /// Most characters.
        longest: usize,
    },
    Number {
        least: u32,
        most: u32,
    },
    /// A duration with its unit.
    Duration {
        least: Duration,
        most: Duration,
    },
    /// An address and a port to listen at.
    Address,
    /// The beginning of a path in an address.
    Path,
    /// A number, with a fraction or without.
    Decimal,
    Truth,
    Names,
    /// A program and its arguments.
    Command,
    /// The address of a webhook. A part of it may be a secret, and nobody can tell which.
    WebhookUrl,
    Word(&'static [&'static str]),
}

impl Kind {
    /// What is accepted, as it is told to people.
    pub fn allowed(self) -> String {
        match self {
            Self::Url => {
                "a database URL such as sqlite://tidemill.db or postgres://user@host/database".to_owned()
            }
            Self::Secret => "a secret of one line".to_owned(),
            Self::Text { longest } => {
                format!("text of 1 to {longest} characters without control characters")
            }
            Self::Number { least, most } => format!("a whole number from {least} to {most}"),
            Self::Duration { least, most } => {
                format!("a duration from {} to {}", duration::show(least), duration::show(most))
            }
            Self::Address => "an address with a port, such as 127.0.0.1:7790 or [::1]:7790".to_owned(),
            Self::Path => "a path such as /tidemill without a slash at its end".to_owned(),
            Self::Decimal => "a number such as 5 or 0.25".to_owned(),
            Self::Truth => "true or false".to_owned(),
            Self::Names => "a list of names such as [\"log\"]".to_owned(),
            Self::Command => {
                "a list of a program and its arguments, such as [\"/opt/probe.sh\", \"ADW\"]".to_owned()
            }
            Self::WebhookUrl => "a URL such as https://host/path".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its path in a TOML file, with dots.
    pub path: &'static str,
    pub kind: Kind,
    /// Its value when nobody sets it; some keys then have none.
    pub default: Option<&'static str>,
    /// What it is for, in one line.
    pub doc: &'static str,
}

impl Key {
    /// The environment variable that sets it.
    ///
    /// ```
    /// # use tidemill::config::key;
    /// let url = key::find("database.url").unwrap();
    /// assert_eq!(url.env_name(), "TIDEMILL_DATABASE_URL");
    /// ```
    pub fn env_name(&self) -> String {
        format!("TIDEMILL_{}", self.path.to_uppercase().replace('.', "_"))
    }

    /// The environment variable of the document that sets it too, if there is one.
    ///
    /// ```
    /// # use tidemill::config::key;
    /// let wait = key::find("pools.max_wait").unwrap();
    /// assert_eq!(wait.document_name(), Some("MAX_WAIT_SECONDS"));
    /// ```
    pub fn document_name(&self) -> Option<&'static str> {
        document_name(self.path)
    }

    /// The environment variable that names a file with the value; only for what is or may be secret.
    pub fn env_file_name(&self) -> Option<String> {
        self.may_be_secret().then(|| format!("{}_FILE", self.env_name()))
    }

    pub(super) fn leaf(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Whether it is a key of the named tables of a section.
    pub(super) fn is_of_section(&self) -> bool {
        self.path.contains(".NAME.")
    }

    /// Whether its value, or a part of it, must not be shown.
    pub fn may_be_secret(&self) -> bool {
        matches!(self.kind, Kind::Url | Kind::Secret | Kind::WebhookUrl)
    }
}

pub(super) const fn duration(least_ms: u64, most_secs: u64) -> Kind {
    Kind::Duration { least: Duration::from_millis(least_ms), most: Duration::from_secs(most_secs) }
}

pub(super) const fn number(least: u32, most: u32) -> Kind {
    Kind::Number { least, most }
}

pub(super) const fn text(longest: usize) -> Kind {
    Kind::Text { longest }
}

/// All keys, in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Key> {
    TABLES.iter().copied().flatten()
}

/// What the programs of the documents read their environment by. These names say the same as ours, and ours win.
fn document_name(path: &str) -> Option<&'static str> {
    Some(match path {
        "database.url" => "SPRING_DATASOURCE_URL",
        "database.password" => "SPRING_DATASOURCE_PASSWORD",
        "pools.default_threshold_percent" => "DEFAULT_THRESHOLD_PERCENT",
        "pools.default_wait" => "DEFAULT_WAIT_SECONDS",
        "pools.max_wait" => "MAX_WAIT_SECONDS",
        "pools.default_units" => "DEFAULT_PARALLEL",
        "pools.min_units" => "MIN_PARALLEL",
        "pools.registry_view" => "EMR_AGENT_TABLE_REGISTRY",
        "pools.limits_view" => "EMR_AGENT_TABLE_LIMITS",
        "outbox.instance_id" => instance::ID_VARIABLE,
        "outbox.total_instances" => instance::TOTAL_VARIABLE,
        "outbox.kafka.bootstrap_servers" => "KAFKA_BOOTSTRAP_SERVERS",
        "render.url" => "NEXRENDER_API_URL",
        "render.secret" => "NEXRENDER_SECRET",
        "render.worker" => "WORKER_ID",
        "render.mount" => "NAS_MOUNT_PATH",
        "render.output_folder" => "NAS_OUTPUT_DIR",
        "render.template_folders" => "AEP_TEMPLATE_DIR",
        "render.retries" => "MAX_RETRIES",
        "render.base_retry_delay" => "BASE_RETRY_DELAY",
        "render.poll_interval" => "POLL_INTERVAL_DEFAULT",
        "render.poll_interval_idle" => "POLL_INTERVAL_IDLE",
        _ => return None,
    })
}

pub fn find(path: &str) -> Option<&'static Key> {
    all().find(|key| key.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_variables_are_unique_and_plain() {
        let mut seen = std::collections::BTreeSet::new();
        for key in all() {
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
            assert!(key.path.chars().all(is_plain), "{}", key.path);
            assert!(seen.insert(key.env_name()), "{}", key.path);
            assert!(key.env_file_name().is_none_or(|name| seen.insert(name)), "{}", key.path);
            assert!(key.doc.ends_with('.'), "{}", key.path);
            assert_eq!(find(key.path), Some(key));
        }
    }
}
