//! The inputs of a form that orders a render: one for each field of the mapping that takes data.

use super::field::Field;
use super::mapping::{Line, Mapping, Target};
use super::profile::Profile;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    pub field: Field,
    pub is_required: bool,
}

/// The order form of a composition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderForm {
    /// Fields that are not in slots.
    pub singles: Vec<Input>,
    /// The names of the fields of slots.
    pub columns: Vec<String>,
    /// Each slot with its inputs by the name of the field.
    pub slots: BTreeMap<u16, BTreeMap<String, Input>>,
}

impl OrderForm {
    pub fn new(mapping: &Mapping, profile: &Profile) -> Self {
        let required: BTreeSet<Field> =
            profile.required_fields.iter().filter_map(|name| name.parse().ok()).collect();
        let mapped =
            mapping.lines.iter().filter(|(_, line)| !matches!(line.target, Target::Expression { .. }));
        let needed = |field: &Field| {
            let is_needed = |line: &Line| !line.is_optional;
            matches!(field, Field::Single { .. }) && mapping.lines.get(field).is_some_and(is_needed)
        };
        // A flag needs no mapping.
        let flags = required.iter().filter(|field| matches!(field, Field::Flag { .. }));
        let fields: BTreeSet<&Field> = mapped.map(|(field, _)| field).chain(flags).collect();
        let mut form = Self { singles: Vec::new(), columns: Vec::new(), slots: BTreeMap::new() };
        for field in fields {
            let input =
                Input { field: field.clone(), is_required: required.contains(field) || needed(field) };
            match field {
                Field::Slot { number, name } => {
                    if !form.columns.contains(name) {
                        form.columns.push(name.clone());
                    }
                    form.slots.entry(*number).or_default().insert(name.clone(), input);
                }
                Field::Single { .. } | Field::Flag { .. } => form.singles.push(input),
            }
        }
        form
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::mapping::tests::{COMPOSITION, row};
    use crate::render::mapping::{self, Kind, MappingRow};
    use crate::render::profile::tests::profile;
    use proptest::prelude::*;

    fn form(rows: &[MappingRow], required: &[&str]) -> OrderForm {
        let mapping = mapping::read(rows).unwrap().remove(COMPOSITION).unwrap_or_default();
        let required_fields = required.iter().map(|&name| name.to_owned()).collect();
        OrderForm::new(&mapping, &Profile { required_fields, ..profile() })
    }

    fn marked(inputs: &[Input]) -> Vec<(String, bool)> {
        inputs.iter().map(|input| (input.field.to_string(), input.is_required)).collect()
    }

    #[test]
    fn what_a_render_must_fill_is_marked() {
        let optional = MappingRow { optional: true, ..row("Single - note", "Note", Kind::Text) };
        let clock = MappingRow {
            source: Some("time".to_owned()),
            ..row("Single - clock", "Clock", Kind::Expression)
        };
        let rows = [
            optional,
            clock,
            row("Single - title", "Title", Kind::Text),
            row("Slot 1 - name", "Name 1", Kind::Text),
            row("Slot 3 - name", "Name 3", Kind::Text),
            row("Slot 1 - country", "Flag 1", Kind::Image),
        ];

        let form = form(&rows, &["Slot 1 - name", "Flag 2", "Single - nowhere"]);

        let named = |name: &str, is_required| (name.to_owned(), is_required);
        let singles = [named("Single - note", false), named("Single - title", true), named("Flag 2", true)];
        assert_eq!(marked(&form.singles), singles);
        assert_eq!(form.columns, ["country", "name"]);
        assert_eq!(form.slots.keys().collect::<Vec<_>>(), [&1, &3]);
        assert!(form.slots[&1]["name"].is_required && !form.slots[&1]["country"].is_required);
        assert!(!form.slots[&3]["name"].is_required && !form.slots[&3].contains_key("country"));
    }

    proptest! {
        #[test]
        fn each_field_that_takes_data_has_one_input(
            fields in prop::collection::btree_set("(Slot [1-9]|Single) - [ab]|Flag [1-9]", 0..12),
        ) {
            let rows: Vec<_> = fields.iter().map(|field| row(field, field, Kind::Text)).collect();
            let form = form(&rows, &[]);
            let slots = form.slots.values().flat_map(BTreeMap::values);
            let mut found: Vec<String> =
                form.singles.iter().chain(slots).map(|input| input.field.to_string()).collect();
            found.sort();
            prop_assert_eq!(found, fields.into_iter().collect::<Vec<_>>());
        }
    }
}
