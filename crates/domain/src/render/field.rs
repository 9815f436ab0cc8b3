//! The fields of a composition: what changes from render to render.

use std::fmt;
use std::str::FromStr;

pub const NUMBER_MAX: u16 = 999;

/// Named as in a mapping.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Field {
    /// `Slot 3 - name`: one of several, such as a seat at a table. Numbers begin at 1 and may have gaps.
    Slot { number: u16, name: String },
    /// `Single - table_id`: there is only one.
    Single { name: String },
    /// `Flag 3`: an image.
    Flag { number: u16 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a field is written `Slot 1 - name`, `Single - name` or `Flag 1`, with numbers from 1 to {NUMBER_MAX}"
)]
pub struct NotAField;

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot { number, name } => write!(f, "Slot {number} - {name}"),
            Self::Single { name } => write!(f, "Single - {name}"),
            Self::Flag { number } => write!(f, "Flag {number}"),
        }
    }
}

impl FromStr for Field {
    type Err = NotAField;

    fn from_str(text: &str) -> Result<Self, NotAField> {
        let name_of = |name: &str| {
            let is_good = !name.trim().is_empty() && !name.chars().any(char::is_control);
            if is_good { Ok(name.to_owned()) } else { Err(NotAField) }
        };
        if let Some(name) = text.strip_prefix("Single - ") {
            return Ok(Self::Single { name: name_of(name)? });
        }
        if let Some(number) = text.strip_prefix("Flag ") {
            return Ok(Self::Flag { number: number_of(number)? });
        }
        let (number, name) =
            text.strip_prefix("Slot ").and_then(|rest| rest.split_once(" - ")).ok_or(NotAField)?;
        Ok(Self::Slot { number: number_of(number)?, name: name_of(name)? })
    }
}

fn number_of(digits: &str) -> Result<u16, NotAField> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number = digits.parse().ok().filter(|number| is_plain && (1..=NUMBER_MAX).contains(number));
    number.ok_or(NotAField)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_forms_are_no_fields() {
        for bad in [
            "",
            "Slot 0 - a",
            "Slot 01 - a",
            "Slot 1000 - a",
            "Slot x - a",
            "Slot 1 -",
            "Slot 1 - ",
            "slot 1 - a",
            "Single - ",
            "Flag 0",
            "Flag",
            "Flag 1 - a",
            "Slot 1 - a\n",
        ] {
            assert_eq!(bad.parse::<Field>(), Err(NotAField), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_field_reads_back(number in 1..=NUMBER_MAX, name in "[a-zA-Z가-힣_ -]{0,12}[a-z]", which in 0..3_u8) {
            let field = match which {
                0 => Field::Slot { number, name },
                1 => Field::Single { name },
                _ => Field::Flag { number },
            };
            prop_assert_eq!(field.to_string().parse(), Ok(field));
        }
    }

    #[test]
    fn a_field_is_read_as_it_is_written() {
        use crate::render::field::Field;
        let name: Field = "Slot 3 - name".parse().unwrap();
        assert_eq!(name, Field::Slot { number: 3, name: "name".to_owned() });
        assert_eq!(name.to_string(), "Slot 3 - name");
    }
}
