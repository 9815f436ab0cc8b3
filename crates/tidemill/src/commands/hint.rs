//! `tidemill hint`: parses and rewrites Oracle hints. It does not use the database.

use crate::commands::prelude::*;
use crate::commands::read_input;
use crate::config::Output;
use crate::report::printable;
use serde_json::Value;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use tidemill_api::pool::HintWarning;
use tidemill_domain::hint::{Degree, Directive, HINT_BYTES_MAX, Hint, HintTooLong, rewrite};

#[derive(Subcommand, Debug)]
pub(crate) enum HintCommand {
    /// Show the degree of parallelism of a hint or statement
    Parse(Parse),
    /// Rewrite a hint or statement with a lower degree
    Rewrite {
        /// A hint comment or a whole statement [default: standard input]
        #[arg(allow_hyphen_values = true, value_parser = text)]
        text: Option<String>,
        /// The granted degree
        #[arg(long, value_name = "N")]
        to: NonZeroU32,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Parse {
    /// A hint comment or a whole statement [default: standard input]
    #[arg(allow_hyphen_values = true, value_parser = text)]
    text: Option<String>,
    /// Degree where the database chooses it
    #[arg(long, value_name = "N")]
    default_degree: Option<NonZeroU32>,
    /// Degree of a hint without parallelism
    #[arg(long, value_name = "N", default_value = "1")]
    none: NonZeroU32,
}

/// A hint may begin with `--+`, so the text may begin with a hyphen. A mistyped flag is refused.
fn text(text: &str) -> Result<String, String> {
    let is_flag =
        text.len() > 1 && text.starts_with('-') && !text.contains(|c: char| c == '+' || c.is_whitespace());
    let why = "there is no such flag; a hint begins with /*+ or --+";
    if is_flag { Err(why.to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn run(command: &HintCommand, context: &Context) -> Result<Exit> {
    match command {
        HintCommand::Parse(arguments) => parse(arguments, context),
        HintCommand::Rewrite { text, to } => lower(text.as_deref(), *to),
    }
}

fn parse(arguments: &Parse, context: &Context) -> Result<Exit> {
    let hint = read(arguments.text.as_deref())?;
    let bound = upper_bound(hint.degree(), arguments);
    match context.output() {
        Output::Table => write_stdout(printable(&about(&hint, bound))),
        output => listing(&hint, bound).print(output),
    }
}

/// None if it depends on a default that is not given.
fn upper_bound(degree: Degree, arguments: &Parse) -> Option<NonZeroU32> {
    let default = arguments.default_degree.or((!degree.depends_on_default()).then_some(NonZeroU32::MIN))?;
    Some(degree.upper_bound(default, arguments.none))
}

fn listing(hint: &Hint, bound: Option<NonZeroU32>) -> Listing {
    let values = [
        ("degree", json!(hint.degree().as_str())),
        ("number", json!(hint.degree().number())),
        ("upper_bound", json!(bound)),
        ("directives", directives(hint).map(|directive| directive_json(hint, directive)).collect()),
        ("warnings", hint.warnings().iter().map(|warning| json!(HintWarning::from(*warning))).collect()),
    ];
    Listing::one("tidemill.hint/v1", values)
}

/// Those of hints, then the clauses outside of hints.
fn directives(hint: &Hint) -> impl Iterator<Item = &Directive> {
    hint.directives().chain(hint.clauses())
}

fn directive_json(hint: &Hint, directive: &Directive) -> Value {
    json!({
        "name": directive.name.as_str(),
        "level": directive.level.as_str(),
        "degree": directive.degree.as_str(),
        "number": directive.degree.number(),
        "text": &hint.text()[directive.span.clone()],
        "begin": directive.span.start,
        "end": directive.span.end,
    })
}

fn about(hint: &Hint, bound: Option<NonZeroU32>) -> String {
    let mut text = format!("degree: {}\n", hint.degree());
    match bound {
        Some(bound) => text.push_str(&format!("counts for: {bound}\n")),
        None => text.push_str("counts for: depends on the database; give --default-degree\n"),
    }
    for directive in directives(hint) {
        let written = hint.text()[directive.span.clone()].replace('\n', " ");
        text.push_str(&format!("{}: {written} ({})\n", directive.level.as_str(), directive.degree));
    }
    for warning in hint.warnings() {
        text.push_str(&format!("warning: {}\n", warning.text()));
    }
    text
}

fn lower(text: Option<&str>, to: NonZeroU32) -> Result<Exit> {
    let hint = read(text)?;
    let mut rewritten = rewrite(&hint, to).map_err(|refusal| {
        let what = format!("the hint cannot be rewritten to {to}");
        let fix = "write its degree as a hint, PARALLEL(8) or PARALLEL(alias 8); see `tidemill hint parse`";
        Failure::new(Code::HintNotRewritten, what, fix).because(refusal)
    })?;
    if !rewritten.ends_with('\n') {
        rewritten.push('\n');
    }
    write_stdout(rewritten)
}

fn read(text: Option<&str>) -> Result<Hint> {
    let hint = match text {
        None | Some("-") => Hint::parse(&standard_input()?),
        Some(text) => Hint::parse(text),
    };
    hint.map_err(|too_long: HintTooLong| {
        let fix = "give the hint comment alone, without the rest of the statement";
        Failure::new(Code::HintTooLong, too_long.to_string(), fix)
    })
}

fn standard_input() -> Result<String> {
    let read =
        read_input(Path::new("-"), HINT_BYTES_MAX).and_then(|bytes| match bytes.len() > HINT_BYTES_MAX {
            // The cut may be within a character.
            true => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            false => {
                String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
            }
        });
    read.map_err(|error| {
        let fix = "send the hint as UTF-8 text";
        Failure::new(Code::Usage, "standard input cannot be read", fix).because(error)
    })
}
