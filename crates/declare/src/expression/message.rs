//! Parse errors of the cel crate, in words for people.

use crate::diagnostic::BadText;
use cel::ParseErrors;

/// The first error, which usually causes the others.
pub(super) fn of(text: &str, errors: &ParseErrors) -> BadText {
    // Errors about incomplete parts follow from syntax errors, but may come before them.
    let about_text = errors.errors.iter().find(|error| error.msg.starts_with("Syntax error: "));
    let Some(error) = about_text.or(errors.errors.first()) else {
        return BadText::new("it is not an expression", 0);
    };
    let offset = offset(text, error.pos);
    BadText::new(words(&error.msg, text, offset), offset)
}

/// Line and column as an offset in bytes.
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
