//! Indents JSON text without parsing it, so that every number keeps its digits. Text that is not JSON stays readable.

const INDENT: &str = "  ";

pub(super) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    let mut letters = json.chars().peekable();
    while let Some(letter) = letters.next() {
        if is_text {
            out.push(letter);
            is_text = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        match letter {
            '"' => {
                is_text = true;
                out.push(letter);
            }
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(|next| next.is_whitespace()).is_some() {}
                // Keep {} and [] on one line.
                match letters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            letter if letter.is_whitespace() => {}
            letter => out.push(letter),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    // Limits the size of text that is nothing but brackets.
    out.extend(std::iter::repeat_n(INDENT, depth.min(40)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn every_value_has_its_line_and_every_number_its_digits() {
        let text = r#"{"a": [1.10, 12345678901234567890123], "b":{}, "c":"x, {\"y\": 1}\\", "d":[ ]}"#;

        let expected = [
            "{",
            "  \"a\": [",
            "    1.10,",
            "    12345678901234567890123",
            "  ],",
            "  \"b\": {},",
            r#"  "c": "x, {\"y\": 1}\\","#,
            "  \"d\": []",
            "}",
        ];

        assert_eq!(indented(text), expected.join("\n"));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(|n| json!(n)),
            ".*".prop_map(|text| json!(text)),
            Just(json!(null))
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::btree_map(".*", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_means_what_it_meant(value in value()) {
            let shown: Value = serde_json::from_str(&indented(&value.to_string())).unwrap();
            prop_assert_eq!(shown, value);
        }

        #[test]
        fn nothing_that_is_no_json_is_a_problem(text in ".*") {
            let _shown = indented(&text);
        }
    }
}
