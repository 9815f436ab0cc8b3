//! Translates paths between render nodes and this host: the longest folder counts, and paths in no folder are refused.

use super::path::{BadPath, NodePath};
use crate::code::Code;

/// An absolute path on this host: under `/`, and on Windows on a drive or a share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LocalPath(NodePath);

/// Whose paths are local.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    Unix,
    Windows,
}

const THIS: System = if cfg!(windows) { System::Windows } else { System::Unix };

impl LocalPath {
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        Self::parse_on(THIS, text)
    }

    fn parse_on(system: System, text: &str) -> Result<Self, BadPath> {
        let not_local = || BadPath::NotLocal { path: text.chars().take(80).collect() };
        if !begins_on(system, text) {
            return Err(not_local());
        }
        let path = match system {
            // More slashes mean a share on Windows only.
            System::Unix => NodePath::parse(&format!("/{}", text.trim_start_matches('/'))),
            System::Windows => NodePath::parse(text),
        }?;
        if path.is_of_windows() == (system == System::Windows) { Ok(Self(path)) } else { Err(not_local()) }
    }

    /// Whether a text begins as a path of this host does.
    pub fn begins(text: &str) -> bool {
        begins_on(THIS, text)
    }

    /// Refuses a backslash, although Linux allows it: it would be a folder on Windows.
    pub fn join(&self, part: &str) -> Result<Self, BadPath> {
        self.0.join(part).map(Self)
    }

    pub fn is_in(&self, folder: &Self) -> bool {
        self.0.is_in(&folder.0)
    }
}

fn begins_on(system: System, text: &str) -> bool {
    match system {
        System::Unix => text.starts_with('/'),
        System::Windows => text.starts_with(['/', '\\']) || text.get(1..2) == Some(":"),
    }
}

// With slashes on Windows, too: it understands them, and so do parts of paths that are split there.
crate::newtype::display!(LocalPath, path => "{}", path.0.forward());

/// One folder, as nodes see it and as this host does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathLine {
    pub node: NodePath,
    pub local: LocalPath,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathMap {
    lines: Vec<PathLine>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{folder} is in the path map twice")]
pub struct BadPathMap {
    pub folder: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoPath {
    #[error("no line of the path map covers {path}")]
    NotMapped { path: String },
    #[error(transparent)]
    Bad(#[from] BadPath),
}

impl NoPath {
    pub const fn code(&self) -> Code {
        match self {
            Self::NotMapped { .. } => Code::PathNotMapped,
            Self::Bad(bad) => bad.code(),
        }
    }
}

impl PathMap {
    pub fn new(lines: Vec<PathLine>) -> Result<Self, BadPathMap> {
        for (index, line) in lines.iter().enumerate() {
            for other in &lines[index + 1..] {
                if line.node.is_in(&other.node) && other.node.is_in(&line.node) {
                    return Err(BadPathMap { folder: line.node.to_string() });
                }
                if line.local == other.local {
                    return Err(BadPathMap { folder: line.local.to_string() });
                }
            }
        }
        Ok(Self { lines })
    }

    pub fn to_local(&self, path: &NodePath) -> Result<LocalPath, NoPath> {
        let covering = self.lines.iter().filter_map(|line| Some((line, path.after(&line.node)?)));
        let Some((line, rest)) = covering.min_by_key(|(_, rest)| rest.len()) else {
            return Err(NoPath::NotMapped { path: path.to_string() });
        };
        Ok(rest.iter().try_fold(line.local.clone(), |local, part| local.join(part))?)
    }

    pub fn to_node(&self, path: &LocalPath) -> Result<NodePath, NoPath> {
        let covering = self.lines.iter().filter_map(|line| Some((line, path.0.after(&line.local.0)?)));
        let Some((line, rest)) = covering.min_by_key(|(_, rest)| rest.len()) else {
            return Err(NoPath::NotMapped { path: path.to_string() });
        };
        Ok(rest.iter().try_fold(line.node.clone(), |node, part| node.join(part))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::name::is_device;
    use proptest::prelude::*;

    fn map() -> PathMap {
        let line = |node, local| PathLine {
            node: NodePath::parse(node).unwrap(),
            local: LocalPath::parse(local).unwrap(),
        };
        PathMap::new(vec![
            line("\\\\NAS\\broadcast", "/mnt/nas/broadcast"),
            line("\\\\NAS\\broadcast\\archive", "/mnt/archive"),
            line("D:\\output", "/mnt/render01/output"),
        ])
        .unwrap()
    }

    #[test]
    fn the_longest_folder_counts_and_ends_at_a_separator() {
        let local = |path| map().to_local(&NodePath::parse(path).unwrap()).map(|local| local.to_string());

        assert_eq!(local("//nas/BROADCAST/x/a.mp4").unwrap(), "/mnt/nas/broadcast/x/a.mp4");
        assert_eq!(local("\\\\NAS\\broadcast\\Archive\\a.mp4").unwrap(), "/mnt/archive/a.mp4");
        assert_eq!(local("\\\\NAS\\broadcast\\archived").unwrap(), "/mnt/nas/broadcast/archived");
        assert_eq!(local("file:///d:/output/a.mp4").unwrap(), "/mnt/render01/output/a.mp4");
        for unmapped in
            ["\\\\NAS\\broad\\a", "\\\\NAS2\\broadcast\\a", "D:\\outputs\\a", "E:\\output\\a", "/output"]
        {
            assert_eq!(local(unmapped).unwrap_err().code(), Code::PathNotMapped, "{unmapped}");
        }
    }

    #[test]
    fn a_folder_is_in_the_map_once() {
        let line = |node, local| PathLine {
            node: NodePath::parse(node).unwrap(),
            local: LocalPath::parse(local).unwrap(),
        };

        assert!(PathMap::new(vec![line("D:\\a", "/x"), line("d:/A", "/y")]).is_err());
        assert!(PathMap::new(vec![line("D:\\a", "/x"), line("D:\\b", "/x/")]).is_err());
    }

    #[test]
    fn a_name_that_windows_cannot_have_has_no_place_there() {
        let local = LocalPath::parse("/mnt/render01/output/a:b").unwrap();

        assert_eq!(map().to_node(&local).unwrap_err().code(), Code::BadPath);
        for bad in ["mnt", "", "/a/../b", "/a\\b", "/a\nb"] {
            assert!(LocalPath::parse(bad).is_err(), "{bad:?}");
        }
        // What Windows calls it is of no use on this host.
        for windows in ["Z:\\nas", "Z:/nas", "\\\\NAS\\broadcast"] {
            assert!(
                LocalPath::parse(windows).unwrap_err().to_string().ends_with("such as /mnt/nas"),
                "{windows}"
            );
        }
    }

    /// The paths of docs/guide/render-windows.md.
    #[test]
    fn a_host_with_windows_has_drives_and_shares() {
        let local = |text| LocalPath::parse_on(System::Windows, text);
        let shown = |text| local(text).unwrap().to_string();

        assert_eq!(shown("\\\\NAS\\broadcast"), "//NAS/broadcast");
        assert_eq!(shown("\\\\?\\UNC\\NAS\\broadcast\\a"), "//NAS/broadcast/a");
        assert_eq!(shown("z:\\nas/a\\"), "Z:/nas/a");
        assert_eq!(local("Z:\\").unwrap().join("a.mp4").unwrap().to_string(), "Z:/a.mp4");
        assert!(local("\\\\nas\\BROADCAST\\a").unwrap().is_in(&local("//NAS/broadcast").unwrap()));
        for other in
            ["/mnt/nas", "nas", "Z:nas", "\\nas", "D:\\a\\nul", "D:\\a:b", "file:///D:/a", "\\\\.\\C:"]
        {
            assert!(local(other).is_err(), "{other}");
        }
        assert!(local("Z:\\nas").unwrap().join("a.mp4:b").is_err());
        // Without a map, nodes have the same share.
        let (share, same) =
            (local("\\\\NAS\\broadcast").unwrap(), NodePath::parse("\\\\NAS\\broadcast").unwrap());
        assert_eq!(NodePath::parse(&share.to_string()), Ok(same.clone()));
        let map = PathMap::new(vec![PathLine { node: same, local: local("Z:\\").unwrap() }]).unwrap();
        let node = map.to_node(&local("z:\\out\\a.mp4").unwrap()).unwrap();
        assert_eq!(node.to_string(), "\\\\NAS\\broadcast\\out\\a.mp4");
        assert_eq!(map.to_local(&node).unwrap().to_string(), "Z:/out/a.mp4");
    }

    #[test]
    fn more_slashes_are_one_on_a_host_without_windows() {
        assert_eq!(LocalPath::parse_on(System::Unix, "//mnt//nas/").unwrap().to_string(), "/mnt/nas");
        for other in ["file:///mnt/nas", "\\\\NAS\\broadcast", "Z:\\nas", "Z:/nas"] {
            assert!(LocalPath::parse_on(System::Unix, other).is_err(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_lead_back(
            root in prop_oneof![Just("\\\\NAS\\broadcast"), Just("\\\\NAS\\broadcast\\archive"), Just("D:\\output")],
            parts in prop::collection::vec("[b-z가-힣_ -]{0,8}[b-z]", 0..4),
        ) {
            prop_assume!(!parts.iter().any(|part| is_device(part)));
            let mut node = NodePath::parse(root).unwrap();
            for part in &parts {
                node = node.join(part).unwrap();
            }
            let local = map().to_local(&node).unwrap();
            prop_assert_eq!(map().to_node(&local), Ok(node));
        }
    }

    #[test]
    fn a_path_of_a_node_is_found_under_the_mount() {
        use crate::render::path::NodePath;
        use crate::render::path_map::{LocalPath, PathLine, PathMap};
        let line = PathLine {
            node: NodePath::parse("\\\\NAS\\broadcast").unwrap(),
            local: LocalPath::parse("/mnt/nas").unwrap(),
        };
        let map = PathMap::new(vec![line]).unwrap();
        let file = NodePath::parse("//nas/broadcast/a.mp4").unwrap();
        assert_eq!(map.to_local(&file).unwrap().to_string(), "/mnt/nas/a.mp4");
    }
}
