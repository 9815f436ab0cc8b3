//! Errors on one line: with its causes, or several. An error's text does not contain its source: log [`ErrorChain`].

use std::error::Error;
use std::fmt;

pub(crate) fn listed<T: fmt::Display>(all: impl IntoIterator<Item = T>, separator: &str) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(separator)
}

/// The text of an error and of those causes that add something.
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text.push_str(&format!(": {more}"));
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: String,
        source: Option<Box<Layer>>,
    }

    fn layers(texts: &[String]) -> Option<Layer> {
        let (first, rest) = texts.split_first()?;
        Some(Layer { text: first.clone(), source: layers(rest).map(Box::new) })
    }

    #[test]
    fn causes_follow_and_what_was_said_is_not_repeated() {
        let texts = ["no answer", "connection refused", "refused", "os error 111"].map(str::to_owned);

        let told = ErrorChain(&layers(&texts).unwrap()).to_string();

        assert_eq!(told, "no answer: connection refused: os error 111");
    }

    proptest! {
        #[test]
        fn every_cause_is_in_it(texts in prop::collection::vec("[a-z ]{1,9}", 1..5)) {
            let told = ErrorChain(&layers(&texts).unwrap()).to_string();

            prop_assert!(texts.iter().all(|text| told.contains(text.as_str())), "{}", told);
        }
    }
}
