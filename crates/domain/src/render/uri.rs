//! `file:` URLs as nexrender reads them: with JavaScript's `decodeURI`, which leaves some escapes alone.
//!
//! So spaces, `%`, controls and non-ASCII are escaped, but not `#`: `%23` would stay as it is.

use super::path::NodePath;

/// What `decodeURI` does not decode.
const RESERVED: &[u8] = b";/?:@&=+$,#";

pub fn encode(path: &NodePath) -> String {
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
pub(super) fn decode(uri: &str) -> Option<String> {
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
        assert_eq!(decode("a%20b%2523%23").as_deref(), Ok("a b%23%23"));
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
        use crate::render::{path::NodePath, uri};
        let flag = NodePath::parse("D:\\assets\\flags\\United States.png").unwrap();
        assert_eq!(uri::encode(&flag), "file:///D:/assets/flags/United%20States.png");
    }
}
