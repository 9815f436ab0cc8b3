//! Keys of the configuration, and the macro that declares them.
//!
//! The path of a key is both its place in a TOML file and, in capitals, its environment variable.

use super::kind::Kind;
use super::secret::Secret;
use super::settings::TABLES;
use std::collections::BTreeMap;
use tidemill_domain::outbox::instance;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its path in a TOML file, with dots. `NAME` in it stands for a name that the user chooses.
    pub path: &'static str,
    pub kind: Kind,
    pub default: Option<&'static str>,
    /// Whether it may be unset although it has no default.
    pub is_optional: bool,
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

    /// The environment variable that names a file with the value; only for what is or may be secret.
    pub fn env_file_name(&self) -> Option<String> {
        self.may_be_secret().then(|| format!("{}_FILE", self.env_name()))
    }

    /// The variable of the program that Tidemill replaces, if there is one. `TIDEMILL_` variables override it.
    ///
    /// ```
    /// # use tidemill::config::key;
    /// let wait = key::find("pools.max_wait").unwrap();
    /// assert_eq!(wait.document_name(), Some("MAX_WAIT_SECONDS"));
    /// ```
    pub fn document_name(&self) -> Option<&'static str> {
        Some(match self.path {
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

    /// The last part of its path.
    pub fn leaf(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Whether it belongs to a table that a file has once per name.
    pub(super) fn is_named(&self) -> bool {
        self.path.contains(".NAME.")
    }

    /// Whether its value, or a part of it, must not be shown.
    pub fn may_be_secret(&self) -> bool {
        self.kind.may_be_secret()
    }
}

/// All keys with a fixed path, in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Key> {
    declared().filter(|key| !key.is_named())
}

/// All keys, those of named tables last.
pub(super) fn declared() -> impl Iterator<Item = &'static Key> {
    TABLES.iter().copied().flatten()
}

pub fn find(path: &str) -> Option<&'static Key> {
    all().find(|key| key.path == path)
}

/// The checked values of one table, by the path of the key.
pub(super) type Values = BTreeMap<&'static str, Secret>;

/// A struct that was declared by [`tables!`].
pub(super) trait Table: Sized {
    const KEYS: &'static [Key];

    /// Nothing when a key is missing that has to be set.
    fn read(values: &Values) -> Option<Self>;
}

/// Declares structs whose fields are keys: `field: Type = default, kind => description`.
///
/// The kind may be left out if it follows from the type. A key without a default has to be set, unless its type is an
/// `Option`. `field "name"` gives the key another name than the field. `NAME` in the path makes it a table that a
/// file has once per name, such as `[connections.NAME]`. Such tables can be set in files only, because a variable could
/// not tell a name from a key.
macro_rules! tables {
    (@leaf $field:ident) => { stringify!($field) };
    (@leaf $field:ident $leaf:literal) => { $leaf };
    (@kind $type:ty) => { <$type as $crate::config::kind::Field>::KIND };
    (@kind $type:ty, $kind:expr) => { $kind };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    ($(
        $(#[$about:meta])*
        $vis:vis struct $table:ident in $path:literal {
            $($field:ident $($leaf:literal)?: $type:ty $(= $default:literal)? $(, $kind:expr)? => $doc:literal;)+
        }
    )+) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Debug)]
        $vis struct $table {
            $(#[doc = $doc] $vis $field: $type,)+
        }

        impl $crate::config::key::Table for $table {
            const KEYS: &'static [$crate::config::key::Key] = &[$($crate::config::key::Key {
                path: concat!($path, $crate::config::key::tables!(@leaf $field $($leaf)?)),
                kind: $crate::config::key::tables!(@kind $type $(, $kind)?),
                default: $crate::config::key::tables!(@default $($default)?),
                is_optional: <$type as $crate::config::kind::Field>::IS_OPTIONAL,
                doc: $doc,
            },)+];

            fn read(values: &$crate::config::key::Values) -> Option<Self> {
                Some(Self {
                    $($field: $crate::config::kind::Field::read(
                        values.get(concat!($path, $crate::config::key::tables!(@leaf $field $($leaf)?))),
                    )?,)+
                })
            }
        }
    )+};
}
pub(super) use tables;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layer::Form;

    #[test]
    fn paths_and_variables_are_unique_and_plain() {
        let mut seen = std::collections::BTreeSet::new();
        for key in all() {
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
            assert!(key.path.chars().all(is_plain), "{}", key.path);
            assert!(seen.insert(key.env_name()), "{}", key.path);
            assert!(key.env_file_name().is_none_or(|name| seen.insert(name)), "{}", key.path);
            assert_eq!(find(key.path), Some(key));
        }
    }

    #[test]
    fn every_key_is_described_and_its_default_is_allowed() {
        for key in declared() {
            assert!(key.doc.ends_with('.'), "{}", key.path);
            if let Some(default) = key.default {
                assert_eq!(key.kind.check(default, Form::Plain), Ok(default.to_owned()), "{}", key.path);
            }
        }
    }

    #[test]
    fn only_keys_of_named_tables_have_to_be_set() {
        for key in all() {
            assert!(key.is_optional || key.default.is_some(), "{}", key.path);
        }
        for key in declared().filter(|key| key.is_named()) {
            assert_eq!(key.path.matches(".NAME.").count(), 1, "{}", key.path);
        }
    }
}
