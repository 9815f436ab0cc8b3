//! Rewrites a hint to fewer parallel servers.
//!
//! Only degrees change, and only downwards: case, spaces, aliases and other hints stay. The result is parsed again, and
//! refused if it could request more than was granted.

use super::directive::{self, Directive, Form};
use super::token::is_of_word;
use super::{Degree, Hint, HintComment};
use std::num::NonZeroU32;
use std::ops::Range;

const QUOTED_CHARS_MAX: usize = 80;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CannotRewrite {
    #[error("{directive} cannot be read")]
    Unreadable { directive: String },
    #[error("{clause} is not in a hint, so it stays as written")]
    Clause { clause: String },
    #[error("the rewritten hint would be too long")]
    TooLong,
    #[error("the rewritten hint could still request {asked}, but {granted} are granted")]
    StillAbove { asked: NonZeroU32, granted: NonZeroU32 },
}

/// Lowers a hint to what was granted.
///
/// Greater degrees, and degrees that the database would choose, become `granted`. `PARALLEL` for the whole statement
/// becomes `NO_PARALLEL` when one is granted (or `PARALLEL(1)` where `NO_PARALLEL` would be read differently). A text
/// that cannot request more than `granted` stays, and so does one without a parallel directive: adding a directive would
/// only make it parallel. A clause outside of hints is not lowered.
///
/// ```
/// # use std::num::NonZeroU32;
/// # use tidemill_domain::hint::{Hint, rewrite};
/// let lowered = |text, granted| rewrite(&Hint::parse(text).unwrap(), NonZeroU32::new(granted).unwrap()).unwrap();
/// assert_eq!(lowered("/*+ parallel(a, 8) PARALLEL(b 2) */", 4), "/*+ parallel(a, 4) PARALLEL(b 2) */");
/// assert_eq!(lowered("/*+ PARALLEL FULL(a) */", 4), "/*+ PARALLEL(4) FULL(a) */");
/// assert_eq!(lowered("/*+ PARALLEL(8) FULL(a) */", 1), "/*+ NO_PARALLEL FULL(a) */");
/// ```
pub fn rewrite(hint: &Hint, granted: NonZeroU32) -> Result<String, CannotRewrite> {
    if most(hint.degree()) <= granted {
        return Ok(hint.text().to_owned());
    }
    if let Some(clause) = hint.clauses().iter().find(|clause| most(clause.degree) > granted) {
        return Err(CannotRewrite::Clause { clause: quoted(hint.text(), clause) });
    }
    let mut edits = Vec::new();
    for comment in hint.comments() {
        edit(hint.text(), comment, granted, &mut edits)?;
    }
    let rewritten = apply(hint.text(), &edits);
    let read = Hint::parse(&rewritten).map_err(|_| CannotRewrite::TooLong)?;
    // There was a directive, so a text without one would be no limit.
    match read.degree().upper_bound(NonZeroU32::MAX, NonZeroU32::MAX) {
        asked if asked > granted => Err(CannotRewrite::StillAbove { asked, granted }),
        _ => Ok(rewritten),
    }
}

/// The degree on a database whose default is unknown.
fn most(degree: Degree) -> NonZeroU32 {
    degree.upper_bound(NonZeroU32::MAX, NonZeroU32::MIN)
}

type Edit = (Range<usize>, String);

fn edit(
    text: &str,
    comment: &HintComment,
    granted: NonZeroU32,
    edits: &mut Vec<Edit>,
) -> Result<(), CannotRewrite> {
    let directives = &comment.directives;
    if most(directive::degree_of(directives)) <= granted {
        return Ok(());
    }
    // `NO_PARALLEL` may not supersede directives for objects, so those are lowered too.
    let is_superseded = granted > NonZeroU32::MIN && directives.iter().any(Directive::supersedes);
    for directive in directives.iter().filter(|directive| most(directive.degree) > granted) {
        match &directive.form {
            Form::Limit => {}
            Form::Unreadable => {
                return Err(CannotRewrite::Unreadable { directive: quoted(text, directive) });
            }
            Form::Object { .. } if is_superseded => {}
            Form::Statement { word, .. }
                if granted == NonZeroU32::MIN && ends_word(text, directive.span.end) =>
            {
                let is_lower = text[word.clone()].bytes().all(|byte| byte.is_ascii_lowercase());
                let serial = if is_lower { "no_parallel" } else { "NO_PARALLEL" };
                edits.push((directive.span.clone(), serial.to_owned()));
            }
            Form::Statement { value: Some(value), .. } => edits.push((value.clone(), granted.to_string())),
            Form::Statement { word, value: None } => edits.push((word.end..word.end, format!("({granted})"))),
            Form::Object { degree: None, end, .. } => edits.push((*end..*end, format!(" {granted}"))),
            Form::Object { degree: Some(degree), instances, .. } => {
                // The written degree may be lower, if only the instances were too many.
                let written = text[degree.clone()].parse::<NonZeroU32>().map_or(granted, |n| n.min(granted));
                edits.push((degree.clone(), written.to_string()));
                edits.extend(instances.clone().map(|instances| (instances, "1".to_owned())));
            }
        }
    }
    Ok(())
}

fn quoted(text: &str, directive: &Directive) -> String {
    text[directive.span.clone()].chars().take(QUOTED_CHARS_MAX).collect()
}

/// Whether `NO_PARALLEL` that ends at `end` would be read as a word without arguments.
fn ends_word(text: &str, end: usize) -> bool {
    let rest = &text[end..];
    !rest.starts_with(is_of_word) && !rest.trim_start().starts_with('(')
}

/// `edits` are in order and do not overlap.
fn apply(text: &str, edits: &[Edit]) -> String {
    let (mut rewritten, mut at) = (String::with_capacity(text.len()), 0);
    for (span, new) in edits {
        rewritten.push_str(&text[at..span.start]);
        rewritten.push_str(new);
        at = span.end;
    }
    rewritten.push_str(&text[at..]);
    rewritten
}
