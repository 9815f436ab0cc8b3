//! Errors of the cel crate, in words for people.

use super::scope::MISSING;
use super::value::type_word;
use crate::diagnostic::BadText;
use cel::{ExecutionError, ParseErrors};

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

/// The first error, which usually causes the others.
pub(super) fn of_parsing(text: &str, errors: &ParseErrors) -> BadText {
    // Errors about incomplete parts follow from syntax errors, but may come before them.
    let about_text = errors.errors.iter().find(|error| error.msg.starts_with("Syntax error: "));
    let Some(error) = about_text.or(errors.errors.first()) else {
        return BadText::new("it is not an expression", 0);
    };
    let offset = offset(text, error.pos);
    BadText::new(words(&error.msg, text, offset), offset)
}

fn offset(text: &str, (line, column): (isize, isize)) -> usize {
    let (line, column) = (usize::try_from(line).unwrap_or(0), usize::try_from(column).unwrap_or(0));
    let mut start = 0;
    for (number, content) in text.split_inclusive('\n').enumerate() {
        if number + 1 == line {
            let within = content.char_indices().nth(column.saturating_sub(1));
            return start + within.map_or(content.len(), |(offset, _)| offset);
        }
        start += content.len();
    }
    if line == 0 { 0 } else { text.len() }
}

fn words(message: &str, text: &str, offset: usize) -> String {
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    if let Some(word) = message.strip_prefix("reserved identifier: ") {
        return format!("{word} is a word of the language and cannot be a name");
    }
    if message.contains("'<EOF>'") {
        return match quoted(message).filter(|_| message.starts_with("missing ")) {
            Some(missing) => format!("a {missing} is missing at the end"),
            None => "the expression ends too early".to_owned(),
        };
    }
    if message.starts_with("missing ") {
        return quoted(message)
            .map_or_else(|| message.to_owned(), |what| format!("a {what} is missing here"));
    }
    let rest = text.get(offset..).unwrap_or_default();
    if rest.starts_with(['\'', '"']) && message.starts_with("token recognition") {
        return "the text that begins here has no closing quote".to_owned();
    }
    let hint = match rest.chars().next() {
        Some('=') if !rest.starts_with("==") => "; write == to compare",
        Some('&') => "; write && for and",
        Some('|') => "; write || for or",
        Some('$') => "; a parameter is parameters.NAME here",
        _ => "",
    };
    match rest.split_whitespace().next() {
        Some(word) => {
            let shown: String = word.chars().take(20).collect();
            format!("{shown} is not expected here{hint}")
        }
        None => "the expression ends too early".to_owned(),
    }
}

fn quoted(message: &str) -> Option<&str> {
    message.split('\'').nth(1).filter(|word| *word != "<EOF>")
}
