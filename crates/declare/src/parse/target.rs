//! Targets of transitions: `next`, `end`, `end(CODE)`, `fail`, `stop`, `stop_and_restart(step)`, `to(step)`.

use super::{Reader, all};
use crate::diagnostic::excerpt;
use crate::document::Node;
use crate::model::At;
use tidemill_domain::job::flow::Target;
use tidemill_domain::nearest::nearest;

const FORMS: &str = "next, end, end(CODE), fail, stop, stop_and_restart(STEP) or to(STEP)";

impl Reader<'_> {
    pub(super) fn transitions(&mut self, node: &Node) -> Option<Vec<(At<String>, At<Target>)>> {
        let example = "on: { FAILED: end, \"*\": next }";
        let entries = self.named(node, "on is a table from exit codes to where to go", example)?;
        all(entries.iter().map(|(key, value)| {
            if key.name.is_empty() {
                let fix = "write the exit code, a pattern such as C*, or \"*\" for all others";
                self.wrong_key(key, "an empty pattern matches no exit code", None, fix);
            }
            let text = self.text(value, "where to go")?;
            let target = target(&text.value).map_err(|fix| {
                let what = format!("{:?} is not a valid target", excerpt(&text.value));
                self.wrong(value, what, fix);
            });
            let target = target.ok().filter(|_| !key.name.is_empty())?;
            let pattern = At { value: key.name.clone(), place: key.place };
            Some((pattern, At { value: target, place: value.place }))
        }))
    }
}

fn target(text: &str) -> Result<Target, String> {
    let text = text.trim();
    let (word, argument) = match text.split_once('(') {
        Some((word, rest)) => match rest.strip_suffix(')') {
            Some(argument) => (word.trim(), Some(argument.trim())),
            None => return Err(format!("close the parenthesis: {text})")),
        },
        None => (text, None),
    };
    match (word, argument) {
        ("next", None) => Ok(Target::Next),
        ("end", None) => Ok(Target::End(None)),
        ("fail", None) => Ok(Target::Fail),
        ("stop", None) => Ok(Target::Stop(None)),
        ("end", Some(code)) if !code.is_empty() => Ok(Target::End(Some(code.to_owned()))),
        ("stop_and_restart", Some(step)) if !step.is_empty() => Ok(Target::Stop(Some(step.to_owned()))),
        ("to", Some(step)) if !step.is_empty() => Ok(Target::To(step.to_owned())),
        ("to" | "stop_and_restart", _) => Err(format!("name the step: {word}(STEP)")),
        ("end", Some(_)) => Err("name the exit code, such as end(NO_DATA), or write end".to_owned()),
        ("next" | "fail" | "stop", Some(_)) => Err(format!("write {word} alone")),
        _ => Err(match nearest(word, ["next", "end", "fail", "stop", "stop_and_restart", "to"]) {
            Some(near) => format!("did you mean {near}? There are {FORMS}"),
            None => format!("write {FORMS}; a step is named by to({})", excerpt(word)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_is_read() {
        for (text, expected) in [
            ("next", Target::Next),
            ("end", Target::End(None)),
            ("end(NO_DATA)", Target::End(Some("NO_DATA".into()))),
            ("fail", Target::Fail),
            ("stop", Target::Stop(None)),
            ("stop_and_restart(load)", Target::Stop(Some("load".into()))),
            (" to( load ) ", Target::To("load".into())),
        ] {
            assert_eq!(target(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused_with_what_helps() {
        for (text, helps) in [
            ("nxt", "did you mean next?"),
            ("load", "to(load)"),
            ("to", "to(STEP)"),
            ("to()", "to(STEP)"),
            ("to(load", "to(load)"),
            ("next(load)", "write next alone"),
            ("end()", "end(NO_DATA)"),
            ("", "next, end"),
        ] {
            assert!(target(text).unwrap_err().contains(helps), "{text}: {:?}", target(text));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,20}") {
            let _answer = target(&text);
        }
    }
}
