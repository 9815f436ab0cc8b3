//! Targets: where the files of a composition are published, on the NAS and in object stores.

use super::profile::Profile;
use crate::error_chain::listed;
use crate::nearest::did_you_mean;
use std::collections::BTreeMap;

/// The NAS among the targets of a profile, and the only target of a profile that names none.
pub const NAS: &str = "nas";

const NAME_CHARS_MAX: usize = 64;

/// A plain name in lower case.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Folders of object stores, by the names of the targets. A folder is a URL without a slash at its end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Targets(BTreeMap<String, String>);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name:?}: {why}")]
pub struct BadTarget {
    pub name: String,
    pub why: &'static str,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the profile of the composition {composition:?} names the target {name:?}; {}the targets are {}",
    did_you_mean(name, known),
    listed(known, ", ")
)]
pub struct UnknownTarget {
    pub composition: String,
    pub name: String,
    /// The names that are known.
    pub known: Vec<String>,
}

crate::code::coded!(UnknownTarget, BadProfile);

/// The targets of one profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen<'a> {
    pub is_on_nas: bool,
    /// Names and folders of object stores.
    pub stores: Vec<(&'a str, &'a str)>,
}

impl Targets {
    pub fn add(&mut self, name: &str, folder: &str) -> Result<(), BadTarget> {
        let folder = folder.trim_end_matches('/');
        let bad = |why| Err(BadTarget { name: name.to_owned(), why });
        let bucket = folder.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
        match bucket {
            _ if name == NAS => bad("this is the NAS; use another name"),
            _ if !is_name(name) => bad("write a name of small letters, digits, - and _"),
            None | Some("") => bad("write a URL such as s3://bucket/folder"),
            _ if folder.split('/').skip(2).any(|part| matches!(part, "" | "." | "..")) => {
                bad("write a URL without empty parts, . and ..")
            }
            _ if self.0.contains_key(name) => bad("it is there twice"),
            Some(_) => {
                self.0.insert(name.to_owned(), folder.to_owned());
                Ok(())
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether an object is in the folder of one of the targets.
    pub fn have(&self, object: &str) -> bool {
        let is_plain = !object.split('/').any(|part| matches!(part, "." | ".."));
        let mut rests = self.0.values().filter_map(|folder| object.strip_prefix(folder.as_str()));
        is_plain && rests.any(|rest| rest.starts_with('/'))
    }

    pub fn of(&self, profile: &Profile) -> Result<Chosen<'_>, UnknownTarget> {
        let is_on_nas = profile.targets.is_empty() || profile.targets.contains(NAS);
        let stores = profile.targets.iter().filter(|name| *name != NAS).map(|name| {
            let found = self.0.get_key_value(name).map(|(name, folder)| (name.as_str(), folder.as_str()));
            found.ok_or_else(|| UnknownTarget {
                composition: profile.composition.clone(),
                name: name.clone(),
                known: std::iter::once(NAS).chain(self.names()).map(str::to_owned).collect(),
            })
        });
        Ok(Chosen { is_on_nas, stores: stores.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::profile;
    use super::*;

    fn targets() -> Targets {
        let mut targets = Targets::default();
        targets.add("archive", "s3://films/main/").unwrap();
        targets.add("cold", "gs://old").unwrap();
        targets
    }

    fn of(names: &[&str]) -> Profile {
        Profile { targets: names.iter().map(ToString::to_string).collect(), ..profile() }
    }

    #[test]
    fn a_profile_chooses_stores_by_name_and_has_the_nas_unless_it_leaves_it_out() {
        let targets = targets();
        let chosen = |names: &[&str]| {
            let Chosen { is_on_nas, stores } = targets.of(&of(names)).unwrap();
            (is_on_nas, stores)
        };

        assert_eq!(chosen(&[]), (true, vec![]));
        assert_eq!(chosen(&["nas"]), (true, vec![]));
        assert_eq!(chosen(&["nas", "archive"]), (true, vec![("archive", "s3://films/main")]));
        assert_eq!(
            chosen(&["cold", "archive"]),
            (false, vec![("archive", "s3://films/main"), ("cold", "gs://old")])
        );
    }

    #[test]
    fn a_target_that_nobody_knows_is_told_with_the_one_that_is_meant() {
        let unknown = targets().of(&of(&["nas", "archve"])).unwrap_err().to_string();
        assert!(
            unknown.contains("\"archve\"; did you mean archive? the targets are nas, archive, cold"),
            "{unknown}"
        );
    }

    #[test]
    fn what_is_no_folder_of_a_store_is_refused() {
        let refused = |name: &str, folder: &str| targets().add(name, folder).unwrap_err().to_string();

        for (name, folder, why) in [
            ("nas", "s3://films", "this is the NAS"),
            ("Archive", "s3://films", "small letters"),
            ("", "s3://films", "small letters"),
            ("new", "films/main", "such as s3://"),
            ("new", "s3:///main", "such as s3://"),
            ("new", "s3://films/../other", "without empty parts"),
            ("new", "s3://films//other", "without empty parts"),
            ("archive", "s3://films", "twice"),
        ] {
            assert!(refused(name, folder).contains(why), "{name}={folder}");
        }
    }

    #[test]
    fn only_objects_below_the_folder_of_a_target_are_its_own() {
        let targets = targets();

        assert!(targets.have("s3://films/main/2026-11-15/Mini_7.mp4") && targets.have("gs://old/Mini_7.mp4"));
        for other in [
            "s3://films/mains/a_7.mp4",
            "s3://films/a_7.mp4",
            "s3://films/main/../a_7.mp4",
            "s3://films/main",
        ] {
            assert!(!targets.have(other), "{other}");
        }
    }
}
