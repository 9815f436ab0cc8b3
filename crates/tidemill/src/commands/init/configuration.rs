//! The configuration that `tidemill init` writes: every key with its description, and all defaults commented out. It is
//! generated from the declarations of the keys, so that no key is missing and none is wrong.

use crate::config::Kind;
use crate::config::key::{self, Key};
use std::fmt::Write as _;

/// The only key that is set, so that the job beside the file is a job of this folder.
const SET: (&str, &str) = ("jobs.folder", "jobs");

const HEAD: &str = "\
# Tidemill reads this configuration in every command that you run in this folder.
#
# Every key is here with its default, commented out: remove the # to set it. Environment variables such as
# TIDEMILL_DATABASE_URL override this file, and flags override both. Set secrets in the environment, or in a file that
# the environment names, never here.
#
#   tidemill config check            report the mistakes in this file
#   tidemill config show --origin    show every value and where it comes from
";

pub(super) fn text() -> String {
    let mut text = HEAD.to_owned();
    // Keys that belong to no table have to come before all tables.
    let (in_tables, alone): (Vec<&Key>, Vec<&Key>) = key::all().partition(|key| key.path.contains('.'));
    for key in alone {
        entry(&mut text, key);
    }
    let mut table = "";
    for key in in_tables {
        let of_key = key.path.rsplit_once('.').map_or("", |(table, _)| table);
        if of_key != table {
            table = of_key;
            let _infallible = writeln!(text, "\n[{table}]");
        }
        entry(&mut text, key);
    }
    text
}

fn entry(text: &mut String, key: &Key) {
    let leaf = key.leaf();
    let _infallible = writeln!(text, "\n# {}", key.doc);
    if key.kind == Kind::Secret {
        let file = key.env_file_name().unwrap_or_default();
        let _infallible = writeln!(text, "# A secret: set {} or {file}.", key.env_name());
        return;
    }
    let allowed = key.kind.allowed();
    let mut letters = allowed.chars();
    let allowed: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    let _infallible = writeln!(text, "# {allowed}.");
    let _infallible = match (key.default, key.path == SET.0) {
        (_, true) => writeln!(text, "{leaf} = {:?}", SET.1),
        (Some(default), _) => writeln!(text, "#{leaf} = {}", value(key.kind, default)),
        (None, _) => writeln!(text, "#{leaf} ="),
    };
}

/// A default in TOML.
fn value(kind: Kind, default: &str) -> String {
    match kind {
        Kind::Number(..) | Kind::Decimal | Kind::Truth => default.to_owned(),
        _ => format!("{default:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Origin, Sources, load};

    #[test]
    fn every_key_is_in_the_file_once() {
        let text = text();

        for key in key::all() {
            assert_eq!(text.matches(&format!("# {}\n", key.doc)).count(), 1, "{}", key.path);
        }
    }

    #[test]
    fn every_default_can_be_uncommented_and_says_what_holds_anyway() {
        let uncommented: String = text()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if !rest.starts_with(' ') && !rest.ends_with('=') => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidemill.toml"), uncommented).unwrap();

        let loaded = load(&Sources {
            flags: Vec::new(),
            environment: Vec::new(),
            config_file: None,
            working_folder: folder.path().to_owned(),
            user_folder: None,
            system_file: "/nowhere/tidemill.toml".into(),
        })
        .unwrap();

        for value in loaded.values.iter().filter(|value| value.key.default.is_some()) {
            assert_ne!(value.origin, Origin::Default, "{} is missing", value.key.path);
            assert_eq!(Some(value.shown.as_str()), value.key.default, "{}", value.key.path);
        }
    }
}
