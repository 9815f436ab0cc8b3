//! Changes single values of `gfx_data` by their paths, such as `single_fields.title` or `slots.1.fields.name`. As everywhere,
//! a slot is known by its number and not by its place in the list.

use super::gfx::BadGfx;
use serde_json::Value;

/// Sets the value at a path. The last name may be new; the rest of the path has to exist.
pub fn set(data: &mut Value, path: &str, value: Value) -> Result<(), BadGfx> {
    let bad = |why: String| BadGfx::Malformed { problems: vec![format!("{path}: {why}")] };
    let (above, last) = path.rsplit_once('.').map_or((None, path), |(above, last)| (Some(above), last));
    let mut at = data;
    for part in above.iter().flat_map(|above| above.split('.')) {
        at = child(at, part).ok_or_else(|| bad(format!("the data has no {part:?} there")))?;
    }
    if let (Value::Object(fields), false) = (&mut *at, last.is_empty()) {
        fields.insert(last.to_owned(), value);
    } else {
        *child(at, last).ok_or_else(|| bad(format!("the data has no {last:?} there")))? = value;
    }
    Ok(())
}

/// A field of an object, the slot of a number, or an entry of another list by its index.
fn child<'a>(at: &'a mut Value, part: &str) -> Option<&'a mut Value> {
    match at {
        Value::Object(fields) => fields.get_mut(part),
        Value::Array(items) => {
            let wanted: u64 = part.parse().ok()?;
            let number = |item: &Value| item.get("slot_number").map(Value::as_u64);
            let mut numbered = (0_u64..).zip(items);
            numbered
                .find(|(index, item)| number(item).unwrap_or(Some(*index)) == Some(wanted))
                .map(|(_, item)| item)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use serde_json::json;

    fn data() -> Value {
        json!({
            "slots": [
                { "slot_number": 2, "fields": { "name": "BEN" } },
                { "slot_number": 1, "fields": { "name": "IVEY" } },
            ],
            "single_fields": { "title": "Final" },
            "flags": ["kr", "us"],
        })
    }

    #[test]
    fn a_slot_is_known_by_its_number() {
        let mut data = data();

        set(&mut data, "slots.1.fields.name", json!("PHIL IVEY")).unwrap();
        set(&mut data, "slots.2.fields.stack", json!(300)).unwrap();
        set(&mut data, "single_fields.title", Value::Null).unwrap();
        set(&mut data, "flags.1", json!("de")).unwrap();
        set(&mut data, "composition_name", json!("Main")).unwrap();

        let expected = json!({
            "slots": [
                { "slot_number": 2, "fields": { "name": "BEN", "stack": 300 } },
                { "slot_number": 1, "fields": { "name": "PHIL IVEY" } },
            ],
            "single_fields": { "title": null },
            "flags": ["kr", "de"],
            "composition_name": "Main",
        });
        assert_eq!(data, expected);
    }

    #[test]
    fn a_path_that_leads_nowhere_changes_nothing() {
        for path in [
            "",
            ".",
            "slots.0.fields.name",
            "slots.3",
            "fields.name",
            "flags.2",
            "single_fields.title.x",
            "slots.",
        ] {
            let mut changed = data();
            let bad = set(&mut changed, path, json!("x")).unwrap_err();
            assert_eq!((bad.code(), changed), (Code::BadRenderData, data()), "{path}");
        }
    }
}
