//! Evaluation errors of the cel crate, in words for people.

use super::scope::MISSING;
use super::value::type_word;
use cel::ExecutionError;

/// Shows types but no values, because the message is logged.
pub(super) fn text(error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { function, message } => format!("{function}: {message}"),
        ExecutionError::NoSuchKey(key) if key.starts_with(MISSING) => key.to_string(),
        ExecutionError::NoSuchKey(key) => format!("there is no {key}"),
        ExecutionError::UndeclaredReference(name) => format!("there is no {name}"),
        ExecutionError::NoSuchOverload(call) => {
            let types: Vec<&str> = call.argument_types().iter().map(|word| known(word)).collect();
            applied(call.function(), &types)
        }
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            applied(operator, &[type_word(left), type_word(right)])
        }
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("{} cannot be compared with {}", type_word(left), type_word(right))
        }
        ExecutionError::UnsupportedIndex(index, of) => {
            format!("{} cannot be looked up in {}", type_word(index), type_word(of))
        }
        ExecutionError::UnsupportedKeyType(key) => format!("{} cannot be a key", type_word(key)),
        ExecutionError::UnexpectedType { got, want } => format!("found {}, not {}", known(got), known(want)),
        ExecutionError::Overflow(operator, ..) => {
            format!("{} overflows", symbol(operator).unwrap_or(operator))
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::IndexOutOfBounds(_) => "the list is shorter than that".to_owned(),
        other => other.to_string(),
    }
}

/// `string + int`, or `size(int)`.
fn applied(function: &str, types: &[&str]) -> String {
    match (symbol(function), types) {
        (Some(symbol), [left, right]) => format!("{left} {symbol} {right} is not possible{}", hint(types)),
        (Some(symbol), [one]) => format!("{symbol}{one} is not possible"),
        _ if function == "_[_]" => format!("nothing can be looked up in {}", types.first().unwrap_or(&"it")),
        _ => format!("{function}({}) is not possible{}", types.join(", "), hint(types)),
    }
}

fn hint(types: &[&str]) -> &'static str {
    match types {
        ["string", "int" | "uint" | "double"] | ["int" | "uint" | "double", "string"] => {
            "; int(…), double(…) or decimal(…, digits) makes a number of a text"
        }
        types if types.contains(&"null") => "; coalesce(…, other) gives another value for null",
        _ => "",
    }
}

/// The cel crate's names of types, where they differ from the language's.
fn known(word: &str) -> &str {
    match word {
        "null_type" => "null",
        "google.protobuf.Timestamp" => "timestamp",
        "google.protobuf.Duration" => "duration",
        word => word,
    }
}

fn symbol(operator: &str) -> Option<&str> {
    Some(match operator {
        "add" | "_+_" => "+",
        "sub" | "_-_" => "-",
        "mul" | "_*_" => "*",
        "div" | "_/_" => "/",
        "rem" | "_%_" => "%",
        "-_" | "neg" => "-",
        "!_" => "!",
        "@in" | "in" | "_in_" => "in",
        other => other.strip_prefix('_')?.strip_suffix('_').filter(|symbol| {
            !symbol.is_empty() && symbol.chars().all(|c| c.is_ascii_punctuation() && c != '_' && c != '[')
        })?,
    })
}
