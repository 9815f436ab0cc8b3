//! The fields of a composition: what changes from render to render.

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

crate::newtype::parsed!(
    Field, Field::read,
    NotAField: "a field is written `Slot 1 - name`, `Single - name` or `Flag 1`, with numbers from 1 to {NUMBER_MAX}"
);

crate::newtype::display!(Field {
    Self::Slot { number, name } => "Slot {number} - {name}";
    Self::Single { name } => "Single - {name}";
    Self::Flag { number } => "Flag {number}";
});

impl Field {
    fn read(text: &str) -> Option<Self> {
        let name_of = |name: &str| {
            let is_good = !name.trim().is_empty() && !name.chars().any(char::is_control);
            is_good.then(|| name.to_owned())
        };
        if let Some(name) = text.strip_prefix("Single - ") {
            return Some(Self::Single { name: name_of(name)? });
        }
        if let Some(number) = text.strip_prefix("Flag ") {
            return Some(Self::Flag { number: number_of(number)? });
        }
        let (number, name) = text.strip_prefix("Slot ")?.split_once(" - ")?;
        Some(Self::Slot { number: number_of(number)?, name: name_of(name)? })
    }
}

fn number_of(digits: &str) -> Option<u16> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|number| is_plain && (1..=NUMBER_MAX).contains(number))
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
