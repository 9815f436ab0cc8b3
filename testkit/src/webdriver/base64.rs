//! Base64 backwards: that is how images come over WebDriver.

/// The bytes of a text; none when it is not Base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0;
        for letter in group {
            bits = bits << 6 | u32::from(value(*letter)?);
        }
        // A group of n letters has n - 1 whole bytes; one letter alone has none and is a mistake.
        let whole = group.len().checked_sub(1).filter(|count| *count > 0)?;
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=whole]);
    }
    Some(bytes)
}

fn value(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_are_decoded() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode(text).unwrap(), bytes.as_bytes(), "{text}");
        }
        assert_eq!(decode("+/A="), Some(vec![0xfb, 0xf0]));
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["Z", "Zm9vY", "Zm 9", "Zm9*"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
