//! Truncates texts to Spring Batch's columns. The full text is kept elsewhere.

use crate::codec::storable;
use crate::error::{Result, StoreError};
use tidemill_domain::job::ExitStatus;
use tidemill_domain::job::context::{ContextError, ExecutionContext, spring};

/// Columns for exit code and exit message.
const EXIT_CHARS_MAX: usize = 2500;

pub(crate) struct ExitColumns {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// The columns, and the whole message if it did not fit.
pub(super) fn exit(exit: &ExitStatus) -> (ExitColumns, Option<String>) {
    let message = storable(&exit.description);
    let short = cut(&message);
    let long = (short.len() < message.len()).then_some(message);
    (ExitColumns { code: cut(&storable(&exit.code)), message: short }, long)
}

pub(super) fn context_text(context: &ExecutionContext, place: &str) -> Result<String> {
    context.to_text().map_err(|source| bad_context(place, source))
}

/// Empty if nothing was stored.
pub(super) fn read_context(text: Option<&str>, place: &str) -> Result<ExecutionContext> {
    let Some(text) = text else { return Ok(ExecutionContext::new()) };
    ExecutionContext::from_text(text).map_err(|source| bad_context(place, source))
}

/// For a step of the given type, or a partition of the given name, that continues another one.
pub(super) fn read_step_context(
    text: Option<&str>,
    place: &str,
    step_type: &str,
) -> Result<ExecutionContext> {
    let mut context = read_context(text, place)?;
    spring::adopt(&mut context, step_type).map_err(|source| bad_context(place, source))?;
    Ok(context)
}

fn bad_context(place: &str, source: ContextError) -> StoreError {
    StoreError::BadContext { place: place.to_owned(), source }
}

fn cut(text: &str) -> String {
    text.chars().take(EXIT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_by_characters_and_kept_whole_beside() {
        let fits = ExitStatus::failed("가".repeat(2500));
        let (columns, long) = exit(&fits);

        assert_eq!((columns.message.chars().count(), long), (2500, None));

        let long_text = format!("{}!", "가".repeat(2500));
        let (columns, long) = exit(&ExitStatus::failed(long_text.clone()));

        assert_eq!(columns.message.chars().count(), 2500);
        assert_eq!(long, Some(long_text));
    }

    #[test]
    fn a_character_that_cannot_be_stored_is_replaced() {
        let (columns, _) = exit(&ExitStatus::failed("a\0b"));

        assert_eq!(columns.message, "a\u{fffd}b");
    }
}
