//! Keys of the configuration, and the macro that declares them.
//!
//! The path of a key is both its place in a TOML file and, in capitals, its environment variable.

use super::kind::Kind;
use super::secret::Secret;
use super::{alert, named, settings};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its path in a TOML file, with dots. `NAME` in it stands for a name that the user chooses.
    pub path: &'static str,
    pub kind: Kind,
    pub default: Option<&'static str>,
    /// Whether it may be unset although it has no default.
    pub is_optional: bool,
    /// The variable by which other programs set it, such as one that Tidemill replaces. `TIDEMILL_` variables override it.
    pub compat_variable: Option<&'static str>,
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
        self.kind.may_be_secret().then(|| format!("{}_FILE", self.env_name()))
    }

    /// The last part of its path.
    pub fn leaf(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Whether it belongs to a table that a file has once per name.
    pub(super) fn is_named(&self) -> bool {
        self.path.contains(".NAME.")
    }
}

/// All keys with a fixed path, in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Key> {
    declared().filter(|key| !key.is_named())
}

/// All keys, those of named tables last.
pub(super) fn declared() -> impl Iterator<Item = &'static Key> {
    [settings::TABLES, alert::TABLES, named::TABLES].into_iter().flatten().copied().flatten()
}

pub fn find(path: &str) -> Option<&'static Key> {
    all().find(|key| key.path == path)
}

/// A struct that was declared by [`tables!`].
pub(super) trait Table: Sized {
    const KEYS: &'static [Key];

    /// Takes the checked values in the order of the keys. None when a value is missing that has to be set.
    fn read(values: impl Iterator<Item = Option<Secret>>) -> Option<Self>;
}

/// Declares structs whose fields are keys: `field: Type = default, kind => description`, and the list `TABLES` of them.
///
/// - The kind may be left out if it follows from the type.
/// - A key without a default has to be set, unless its type is an `Option`.
/// - `field or "VARIABLE"` is also set by this variable, which other programs use, such as one that Tidemill replaces.
/// - `field as "name"` is a key with another name than its field.
/// - `NAME` in the path makes it a table that a file has once per name, such as `[connections.NAME]`. It can be set in
///   files only, because a variable could not tell a name from a key.
macro_rules! tables {
    (@leaf $field:ident) => { stringify!($field) };
    (@leaf $field:ident $leaf:literal) => { $leaf };
    (@kind $type:ty) => { <$type as $crate::config::kind::Setting>::KIND };
    (@kind $type:ty, $kind:expr) => { $kind };
    (@optional) => { None };
    (@optional $literal:literal) => { Some($literal) };
    ($(
        $(#[$about:meta])*
        $vis:vis struct $table:ident in $path:literal {
            $($field:ident $(or $variable:literal)? $(as $leaf:literal)?:
                $type:ty $(= $default:literal)? $(, $kind:expr)? => $doc:literal;)+
        }
    )+) => {
        pub(super) const TABLES: &[&[$crate::config::Key]] =
            &[$(<$table as $crate::config::key::Table>::KEYS,)+];
        $(
            $(#[$about])*
            #[derive(Clone, PartialEq, Debug)]
            $vis struct $table {
                $(#[doc = $doc] $vis $field: $type,)+
            }

            impl $crate::config::key::Table for $table {
                const KEYS: &'static [$crate::config::Key] = &[$($crate::config::Key {
                    path: concat!($path, $crate::config::key::tables!(@leaf $field $($leaf)?)),
                    kind: $crate::config::key::tables!(@kind $type $(, $kind)?),
                    default: $crate::config::key::tables!(@optional $($default)?),
                    is_optional: <$type as $crate::config::kind::Setting>::IS_OPTIONAL,
                    compat_variable: $crate::config::key::tables!(@optional $($variable)?),
                    doc: $doc,
                },)+];

                fn read(mut values: impl Iterator<Item = Option<$crate::config::Secret>>) -> Option<Self> {
                    Some(Self { $($field: $crate::config::kind::Setting::read(values.next()?)?,)+ })
                }
            }
        )+
    };
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
