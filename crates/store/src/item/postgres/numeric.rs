//! PostgreSQL's binary form of `numeric`: groups of four decimal digits.
//!
//! Two bytes each: number of groups, weight of the first one (in groups from the point), sign, digits after the point;
//! then the groups.

use tidemill_domain::item::Decimal;

const GROUP: usize = 4;
const HEADER: usize = 8;
const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;

/// Most digits that PostgreSQL keeps before and after the point.
const WHOLE_MAX: usize = 131_072;
const FRACTION_MAX: usize = 16_383;

pub(crate) fn decode(bytes: &[u8]) -> Result<Decimal, String> {
    let word = |at: usize| bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let header = (word(0), word(2), word(4), word(6));
    let (Some(groups), Some(weight), Some(sign), Some(scale)) = header else {
        return Err("has a numeric value that is too short".into());
    };
    let sign = match sign {
        POSITIVE => "",
        NEGATIVE => "-",
        NAN => {
            return Err(
                "is NaN, which is no decimal number; filter it or cast it to text in the query".into()
            );
        }
        _ => {
            return Err(
                "is infinite, which is no decimal number; filter it or cast it to text in the query".into()
            );
        }
    };
    let (groups, scale) = (usize::from(groups), usize::from(scale));
    let weight = i32::from(i16::from_be_bytes(weight.to_be_bytes()));
    if bytes.len() != HEADER + 2 * groups {
        return Err("has a numeric value of the wrong length".into());
    }
    // A missing group is zero.
    let group = |position: i32| -> u16 {
        let index = weight - position;
        usize::try_from(index)
            .ok()
            .filter(|index| *index < groups)
            .and_then(|index| word(HEADER + 2 * index))
            .unwrap_or(0)
    };
    let mut text =
        String::with_capacity(sign.len() + 2 + scale + GROUP * (usize::try_from(weight).unwrap_or(0) + 1));
    text.push_str(sign);
    if weight < 0 {
        text.push('0');
    }
    for position in (0..=weight).rev() {
        push_group(&mut text, group(position));
    }
    if scale > 0 {
        text.push('.');
        let start = text.len();
        let mut position = -1;
        while text.len() - start < scale {
            push_group(&mut text, group(position));
            position -= 1;
        }
        text.truncate(start + scale);
    }
    text.parse().map_err(|_| "has a numeric value that is not understood".to_owned())
}

fn push_group(text: &mut String, group: u16) {
    for divisor in [1_000, 100, 10, 1] {
        let digit = group / divisor % 10;
        text.push(char::from(b'0' + u8::try_from(digit).unwrap_or(0)));
    }
}

pub(crate) fn encode(decimal: &Decimal, buffer: &mut Vec<u8>) -> Result<(), String> {
    let text = decimal.as_str();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (NEGATIVE, rest),
        None => (POSITIVE, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() > WHOLE_MAX || fraction.len() > FRACTION_MAX {
        return Err("has more digits than numeric can hold".into());
    }
    let mut groups = groups_of(whole, fraction);
    let mut weight = whole.len().div_ceil(GROUP) as i64 - 1;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= leading as i64;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    let number =
        |value: i64| i16::try_from(value).map_err(|_| "has more digits than numeric can hold".to_owned());
    buffer.extend_from_slice(&number(groups.len() as i64)?.to_be_bytes());
    buffer.extend_from_slice(&number(weight)?.to_be_bytes());
    buffer.extend_from_slice(&sign.to_be_bytes());
    buffer.extend_from_slice(&number(fraction.len() as i64)?.to_be_bytes());
    for group in groups {
        buffer.extend_from_slice(&group.to_be_bytes());
    }
    Ok(())
}

/// Groups of four digits, from the point to both sides.
fn groups_of(whole: &str, fraction: &str) -> Vec<u16> {
    let mut groups = Vec::with_capacity(whole.len() / GROUP + fraction.len() / GROUP + 2);
    let value = |digits: &[u8]| digits.iter().fold(0_u16, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    let (first, rest) = whole.as_bytes().split_at(whole.len() % GROUP);
    if !first.is_empty() {
        groups.push(value(first));
    }
    groups.extend(rest.chunks(GROUP).map(value));
    for chunk in fraction.as_bytes().chunks(GROUP) {
        let missing = u32::try_from(GROUP - chunk.len()).unwrap_or(0);
        groups.push(value(chunk) * 10_u16.pow(missing));
    }
    groups
}

/// Without trailing zeros: `1.50` and `1.5` are one key.
pub(crate) fn normalised(decimal: &Decimal) -> &str {
    let text = decimal.as_str();
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(text: &str) -> Vec<u8> {
        let mut buffer = Vec::new();
        encode(&text.parse().unwrap(), &mut buffer).unwrap();
        buffer
    }

    /// As a server sends it.
    #[test]
    fn the_binary_form_is_that_of_the_server() {
        for (text, words) in [
            ("0", &[0, 0, 0, 0][..]),
            ("0.00", &[0, 0, 0, 2]),
            ("1", &[1, 0, 0, 0, 1]),
            ("-12345.678", &[3, 1, 0x4000, 3, 1, 2345, 6780]),
            ("0.0001", &[1, 0xFFFF, 0, 4, 1]),
            ("100000000", &[1, 2, 0, 0, 1]),
        ] {
            let bytes: Vec<u8> = words.iter().flat_map(|word: &u16| word.to_be_bytes()).collect();
            assert_eq!(encoded(text), bytes, "{text}");
            assert_eq!(decode(&bytes).unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_no_number_is_named() {
        let special =
            |sign: u16| [0_u16, 0, sign, 0].iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();

        assert!(decode(&special(0xC000)).unwrap_err().contains("NaN"));
        assert!(decode(&special(0xD000)).unwrap_err().contains("infinite"));
        assert!(decode(&special(0xF000)).unwrap_err().contains("infinite"));
        assert!(decode(&[0, 1]).is_err());
    }

    #[test]
    fn equal_numbers_are_one_key() {
        for (text, key) in [("1.50", "1.5"), ("10", "10"), ("0.00", "0"), ("-3.0", "-3")] {
            assert_eq!(normalised(&text.parse().unwrap()), key);
        }
    }

    proptest! {
        #[test]
        fn decimals_read_back(text in "-?[0-9]{1,40}(\\.[0-9]{1,40})?") {
            let decimal: Decimal = text.parse().unwrap();
            prop_assert_eq!(decode(&encoded(&text)).unwrap(), decimal);
        }

        #[test]
        fn any_bytes_are_understood_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _answer = decode(&bytes);
        }
    }
}
