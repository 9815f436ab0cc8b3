//! Paths on render nodes.
//!
//! Nodes see the NAS as a share or a drive, this host under a mount. `\\NAS\x` is a legal file name on Linux, so a node's
//! path is never used here unless the path map translates it.
//!
//! nexrender reads `file:` URLs with JavaScript's `decodeURI`, which leaves some escapes alone. So spaces, `%`, controls and
//! non-ASCII are escaped, but not `#`: `%23` would stay as it is.

use super::name::is_device;

const CHARS_MAX: usize = 4_096;

const LOCAL: &str = if cfg!(windows) { "\\\\NAS\\broadcast" } else { "/mnt/nas" };

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Root {
    /// `D:\`
    Drive(char),
    /// `\\host\share`
    Share { host: String, share: String },
    /// `/`, on nodes that have no drives.
    Slash,
}

/// An absolute path on a render node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodePath {
    root: Root,
    parts: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadPath {
    #[error("{path:?} is not an absolute path such as D:\\a, \\\\host\\share\\a, /a or file:///D:/a")]
    NotWhole { path: String },
    #[error("{path:?} is not an absolute path of this host such as {LOCAL}")]
    NotLocal { path: String },
    #[error("{path:?} contains ..")]
    Parent { path: String },
    #[error("{part:?} is not allowed in a path")]
    Part { part: String },
    #[error("{path:?} has a % without two hexadecimal digits after it, or is not UTF-8")]
    Uri { path: String },
}

crate::code::coded!(BadPath, BadPath);

impl NodePath {
    /// Reads `D:\a`, `D:/a`, `\\host\share\a`, `//host/share/a`, both also after `\\?\`, `/a`, `file:///D:/a`,
    /// `file://host/share/a` and `file:///a`.
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        let shown = || text.chars().take(80).collect::<String>();
        let not_whole = || BadPath::NotWhole { path: shown() };
        if text.chars().count() > CHARS_MAX {
            return Err(not_whole());
        }
        if let Some(bad) = text.chars().find(|letter| letter.is_control()) {
            return Err(BadPath::Part { part: bad.to_string() });
        }
        let decoded = match text.get(..5) {
            Some(scheme) if scheme.eq_ignore_ascii_case("file:") => {
                Some(local_of(&text[5..]).ok_or_else(not_whole)?)
            }
            _ => None,
        };
        let plain = match &decoded {
            Some(rest) => decode(rest).ok_or_else(|| BadPath::Uri { path: shown() })?,
            None => text.to_owned(),
        };
        let (root, rest) = root(&plain).ok_or_else(not_whole)?;
        let separators: &[char] = if root == Root::Slash { &['/'] } else { &['/', '\\'] };
        let mut parts = Vec::new();
        for part in rest.split(separators).filter(|part| !part.is_empty() && *part != ".") {
            check_part(&root, part, || BadPath::Parent { path: shown() })?;
            parts.push(part.to_owned());
        }
        // It would be read back as a drive.
        if root == Root::Slash && parts.first().is_some_and(|first| is_drive(first)) {
            return Err(not_whole());
        }
        if let Root::Share { host, share } = &root {
            for name in [host, share] {
                check_part(&root, name, || BadPath::Parent { path: shown() })?;
            }
        }
        Ok(Self { root, parts })
    }

    pub fn join(&self, part: &str) -> Result<Self, BadPath> {
        let separators: &[char] = &['/', '\\'];
        if part.is_empty() || part == "." || part.contains(separators) || part.chars().any(char::is_control) {
            return Err(BadPath::Part { part: part.chars().take(80).collect() });
        }
        check_part(&self.root, part, || BadPath::Parent { path: part.to_owned() })?;
        let mut joined = self.clone();
        joined.parts.push(part.to_owned());
        Ok(joined)
    }

    /// Whether it is `folder` or inside it. Case does not count on Windows.
    pub fn is_in(&self, folder: &Self) -> bool {
        self.after(folder).is_some()
    }

    /// The parts after `folder`.
    pub(super) fn after(&self, folder: &Self) -> Option<&[String]> {
        let is_same = |one: &str, other: &str| {
            if self.root == Root::Slash { one == other } else { one.to_lowercase() == other.to_lowercase() }
        };
        let has_root = match (&self.root, &folder.root) {
            (Root::Drive(one), Root::Drive(other)) => one == other,
            (Root::Share { host, share }, Root::Share { host: other_host, share: other_share }) => {
                is_same(host, other_host) && is_same(share, other_share)
            }
            (Root::Slash, Root::Slash) => true,
            _ => false,
        };
        let (head, rest) = self.parts.split_at_checked(folder.parts.len())?;
        let has_parts = head.iter().zip(&folder.parts).all(|(one, other)| is_same(one, other));
        (has_root && has_parts).then_some(rest)
    }

    /// Whether it is on a drive or a share, which only Windows nodes have.
    pub fn is_of_windows(&self) -> bool {
        self.root != Root::Slash
    }

    pub fn file_name(&self) -> Option<&str> {
        self.parts.last().map(String::as_str)
    }

    /// With slashes, as nexrender expects it.
    pub fn forward(&self) -> String {
        self.show('/')
    }

    fn show(&self, separator: char) -> String {
        let parts = self.parts.join(&separator.to_string());
        match &self.root {
            Root::Drive(letter) => format!("{letter}:{separator}{parts}"),
            Root::Share { host, share } => {
                let share = format!("{separator}{separator}{host}{separator}{share}");
                if parts.is_empty() { share } else { format!("{share}{separator}{parts}") }
            }
            Root::Slash => format!("/{}", self.parts.join("/")),
        }
    }
}

// As people and playout write it.
crate::newtype::display!(NodePath, path => "{}", path.show('\\'));

/// The path of a URL without its scheme: `///D:/a` and `///a` lose the empty host.
fn local_of(rest: &str) -> Option<String> {
    let host_and_path = rest.strip_prefix("//")?;
    match host_and_path.strip_prefix('/') {
        Some(path) if path.split('/').next().is_some_and(is_drive) => Some(path.to_owned()),
        // More slashes would make it a share.
        Some(path) => (!path.starts_with('/')).then(|| host_and_path.to_owned()),
        None => Some(rest.to_owned()),
    }
}

fn root(text: &str) -> Option<(Root, &str)> {
    let is_slash = |letter: char| letter == '/' || letter == '\\';
    let slashes = text.len() - text.trim_start_matches(is_slash).len();
    let (text, is_share) = match (slashes, text.get(..4)) {
        (2.., Some("\\\\?\\" | "//?/")) => {
            let rest = &text[4..];
            match rest.get(..3) {
                Some(word) if word.eq_ignore_ascii_case("unc") && rest[3..].starts_with(is_slash) => {
                    (&rest[4..], true)
                }
                _ => (rest, false),
            }
        }
        (2, _) => (&text[2..], true),
        (0, _) => (text, false),
        (1, _) if text.starts_with('/') => return Some((Root::Slash, &text[1..])),
        _ => return None,
    };
    if is_share {
        let (host, rest) = text.split_once(is_slash)?;
        let (share, rest) = rest.split_once(is_slash).unwrap_or((rest, ""));
        let is_name = |name: &str| !matches!(name, "" | "." | "?");
        let root = Root::Share { host: host.to_owned(), share: share.to_owned() };
        return (is_name(host) && is_name(share)).then_some((root, rest));
    }
    let (drive, rest) = text.split_once(is_slash)?;
    let letter = is_drive(drive).then(|| drive.chars().next())??;
    Some((Root::Drive(letter.to_ascii_uppercase()), rest))
}

fn is_drive(part: &str) -> bool {
    matches!(part.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

fn check_part(root: &Root, part: &str, parent: impl Fn() -> BadPath) -> Result<(), BadPath> {
    if part == ".." {
        return Err(parent());
    }
    let is_bad = match root {
        Root::Slash => part.contains('\\'),
        // Windows drops dots and spaces at the end, so `.. ` would be `..` there.
        Root::Drive(_) | Root::Share { .. } => {
            part.contains(['<', '>', ':', '"', '|', '?', '*'])
                || part.ends_with([' ', '.'])
                || is_device(part)
        }
    };
    if is_bad || part.chars().any(char::is_control) {
        return Err(BadPath::Part { part: part.chars().take(80).collect() });
    }
    Ok(())
}

/// What `decodeURI` does not decode.
const RESERVED: &[u8] = b";/?:@&=+$,#";

/// Its `file:` URL.
pub(super) fn encode(path: &NodePath) -> String {
    let text = path.forward();
    // A share already has its two slashes: `file://NAS/share`. All others get an empty host.
    let mut uri = match (text.starts_with("//"), text.starts_with('/')) {
        (true, _) => "file:".to_owned(),
        (false, true) => "file://".to_owned(),
        (false, false) => "file:///".to_owned(),
    };
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// None for a % without two hexadecimal digits after it, and for what is not UTF-8.
fn decode(uri: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            bytes.push(*byte);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let escaped = digit(digits[0])? * 16 + digit(digits[1])?;
        if RESERVED.contains(&escaped) {
            bytes.push(b'%');
            bytes.extend_from_slice(digits);
        } else {
            bytes.push(escaped);
        }
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_accepted_form_is_the_same_path() {
        for share in [
            "\\\\NAS\\broadcast\\out\\a b.mp4",
            "//NAS/broadcast/out/a b.mp4",
            "\\\\?\\UNC\\NAS\\broadcast\\out\\a b.mp4",
            "file://NAS/broadcast/out/a%20b.mp4",
            "\\\\NAS/broadcast\\\\out/./a b.mp4",
        ] {
            assert_eq!(
                NodePath::parse(share).unwrap().to_string(),
                "\\\\NAS\\broadcast\\out\\a b.mp4",
                "{share}"
            );
        }
        for drive in ["D:\\a\\b", "D:/a/b", "d:/a/b/", "file:///D:/a/b", "FILE:///d:/a/b", "\\\\?\\D:\\a\\b"]
        {
            assert_eq!(NodePath::parse(drive).unwrap().to_string(), "D:\\a\\b", "{drive}");
        }
        assert_eq!(NodePath::parse("file:///mnt/a").unwrap(), NodePath::parse("/mnt/a").unwrap());
    }

    #[test]
    fn whatever_leads_elsewhere_is_refused() {
        for bad in [
            "",
            "a",
            "a\\b",
            "D:",
            "D:a",
            "\\a",
            "\\\\NAS",
            "\\\\NAS\\",
            "\\\\.\\pipe\\x",
            "///a/b",
            "file://D:/x",
            "file:D:/x",
            "file:////NAS/share/x",
            "D:\\a\\..\\b",
            "D:/a/%2e%2e/../b",
            "file:///D:/a/%2e%2e/b",
            "file:///D:/a%5C..%5Cb",
            "D:\\a\\.. \\b",
            "D:\\a\\...\\b",
            "D:\\a\\b:stream",
            "\\\\NAS\\..\\x",
            "/a/../b",
            "/a\\b",
            "D:\\a\nb",
            "D:\\a\0",
            "/D:/x",
            "file:///%zz",
            "\\\\?\\%가",
            "http://host/a",
        ] {
            assert!(NodePath::parse(bad).is_err(), "{bad:?}");
        }
    }

    /// The paths of docs/guide/render-windows.md, and others like them.
    #[test]
    fn paths_are_read_as_windows_reads_them() {
        let same = |forms: &[&str], path: &str| {
            for form in forms {
                assert_eq!(NodePath::parse(form).unwrap().to_string(), path, "{form}");
            }
        };
        same(
            &["D:\\t\\a.aep", "d:/t/a.aep", "\\\\?\\D:\\t\\a.aep", "file:///D:/t/a.aep", "D:\\\\t/.\\a.aep"],
            "D:\\t\\a.aep",
        );
        same(
            &[
                "\\\\NAS\\broadcast",
                "//NAS/broadcast/",
                "\\\\?\\UNC\\NAS\\broadcast",
                "\\\\?\\unc\\NAS/broadcast\\",
            ],
            "\\\\NAS\\broadcast",
        );
        same(&["D:\\", "d:/", "file:///d:/"], "D:\\");
        same(&["\\\\nas\\C$\\console\\com10\\nullable.x"], "\\\\nas\\C$\\console\\com10\\nullable.x");
        for refused in [
            "D:t",
            "\\t",
            "D:",
            "1:\\a",
            "DD:\\a",
            "\\\\.\\C:",
            "\\\\.\\pipe\\a",
            "\\\\?\\GLOBALROOT\\Device\\a",
            "\\\\?\\UNC\\NAS",
            "\\??\\D:\\a",
            "D:\\a\\..\\b",
            "D:\\a.\\b",
            "D:\\a \\b",
            "D:\\a\\nul",
            "D:\\flags\\CON.png",
            "D:\\aux .txt\\a",
            "\\\\NAS\\broadcast\\com1",
            "D:\\LPT¹",
            "D:\\conin$",
            "D:\\a\\b:c",
            "D:\\a\\*.aep",
            "D:\\a\\b?",
            "\\\\NAS\\C$\\..\\a",
        ] {
            assert!(NodePath::parse(refused).is_err(), "{refused}");
        }
        // Linux has no such devices.
        assert!(NodePath::parse("/mnt/nul").is_ok());
        let path = |text| NodePath::parse(text).unwrap();
        assert!(path("\\\\?\\UNC\\nas\\BROADCAST\\Ä\\x").is_in(&path("//NAS/broadcast/ä")));
        assert!(!path("\\\\NAS\\D$\\t").is_in(&path("D:\\t")));
        assert!(path("D:\\").join("nul.txt").is_err() && path("D:\\").join("a").unwrap().is_in(&path("d:/")));
    }

    #[test]
    fn a_folder_ends_at_a_separator() {
        let path = |text| NodePath::parse(text).unwrap();

        assert!(path("d:\\Output\\x").is_in(&path("D:\\output")));
        assert!(path("//nas/Broadcast/x").is_in(&path("\\\\NAS\\broadcast")));
        assert!(!path("\\\\NAS\\broadcast2\\x").is_in(&path("\\\\NAS\\broadcast")));
        assert!(!path("D:\\output2\\x").is_in(&path("D:\\output")));
        assert!(!path("/mnt/A/x").is_in(&path("/mnt/a")));
        assert!(path("D:\\output").join("..").is_err() && path("D:\\output").join("a\\b").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_without_parents_or_refused(
            root in prop_oneof![Just(""), Just("D:/"), Just("//N/C/"), Just("/"), Just("file:///D:/"), Just("\\\\?\\")],
            rest in "[aD:/\\\\.% 2e?NUC\u{0}가]{0,16}",
        ) {
            let text = format!("{root}{rest}");
            if let Ok(path) = NodePath::parse(&text) {
                prop_assert!(path.parts.iter().all(|part| part != ".." && !part.contains('/')));
                prop_assert_eq!(NodePath::parse(&path.to_string()), Ok(path.clone()));
                prop_assert_eq!(NodePath::parse(&path.forward()), Ok(path.clone()));
                prop_assert!(path.is_in(&path));
            }
        }
    }

    #[test]
    fn a_path_is_written_in_both_ways() {
        use crate::render::path::NodePath;
        let path = NodePath::parse("\\\\?\\UNC\\NAS\\broadcast\\output/a.mp4").unwrap();
        assert_eq!(path.to_string(), "\\\\NAS\\broadcast\\output\\a.mp4");
        assert_eq!(path.forward(), "//NAS/broadcast/output/a.mp4");
        assert!(NodePath::parse("D:\\output\\..\\secret").is_err());
    }

    #[test]
    fn each_form_of_a_path_has_its_form_of_an_address() {
        let check = |path: &str, uri: &str| assert_eq!(encode(&NodePath::parse(path).unwrap()), uri);

        check("D:\\templates\\a.aep", "file:///D:/templates/a.aep");
        check("\\\\NAS\\share\\a.png", "file://NAS/share/a.png");
        check("/mnt/a b.png", "file:///mnt/a%20b.png");
        check("D:/100%/#1.png", "file:///D:/100%25/#1.png");
        check("D:/한국.png", "file:///D:/%ED%95%9C%EA%B5%AD.png");
    }

    #[test]
    fn escapes_are_read_as_nexrender_reads_them() {
        assert_eq!(decode("a%20b%2523%23").as_deref(), Some("a b%23%23"));
        for bad in ["%", "a%2", "a%zz", "%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_path_reads_back_from_its_address(
            root in prop_oneof![Just("D:/"), Just("//NAS/share/"), Just("/mnt/")],
            parts in prop::collection::vec("[a-zA-Z0-9 %#+&'가-힣é_-]{0,8}[a-z%#가]", 1..5),
        ) {
            prop_assume!(!parts.iter().any(|part| is_device(part)));
            let path = NodePath::parse(&format!("{root}{}", parts.join("/"))).unwrap();
            let uri = encode(&path);
            prop_assert!(uri.is_ascii() && !uri.contains(' '));
            prop_assert_eq!(NodePath::parse(&uri), Ok(path));
        }

        #[test]
        fn any_text_is_decoded_or_refused_without_a_panic(text in "[%0-9a-fA-F가é/ ]{0,24}") {
            let _answer = decode(&text);
        }
    }

    #[test]
    fn spaces_are_escaped() {
        let flag = NodePath::parse("D:\\assets\\flags\\United States.png").unwrap();
        assert_eq!(encode(&flag), "file:///D:/assets/flags/United%20States.png");
    }
}
