//! Errors of the command line: what is wrong, and which `--help` to read.

use crate::config::Output;
use crate::report::{self, Failure};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;
use tidemill_domain::code::{Code, Exit};

/// The last line of every error of `clap`. The fix names the exact command instead.
const POINTER: &str = "For more information, try '--help'.";

/// The command that `clap` adds to every group. It is not listed.
const HELP: &str = "help";

/// Subcommands that end or delete something. They are not suggested for a mistyped word, which may have meant anything.
const DESTRUCTIVE: [&str; 13] = [
    "abandon", "cancel", "delete", "detach", "edit", "purge", "recover", "redirect", "release", "remove",
    "revoke", "skip", "stop",
];

/// Help and version go to standard output, everything else is an error like any other.
pub(crate) fn report(error: clap::Error, commands: clap::Command, arguments: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        let printed = error.print();
        return ExitCode::from(if printed.is_ok() { Exit::Ok } else { Exit::Failure }.number());
    }
    let failure = failure(error, commands, arguments);
    report::print(&failure, if wants_json(arguments) { Output::Json } else { Output::Table });
    ExitCode::from(failure.number)
}

fn failure(mut error: clap::Error, mut commands: clap::Command, arguments: &[OsString]) -> Failure {
    // Only then do commands have the global flags.
    commands.build();
    let (path, command) = named_command(&commands, arguments);
    let fix = format!("see `{path} --help`");
    // For these `clap` writes the help as if it were the error.
    if let ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand = error.kind() {
        return Failure::new(Code::Usage, format!("`{path}` needs a subcommand"), fix)
            .because(subcommands(command));
    }
    let is_destructive = |name: &String| DESTRUCTIVE.contains(&name.as_str());
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand)
        && names.iter().any(is_destructive)
    {
        error.remove(ContextKind::SuggestedSubcommand);
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    let text = text.strip_suffix(POINTER).unwrap_or(text);
    let (what, why) = text.split_once('\n').unwrap_or((text, ""));
    Failure::new(Code::Usage, what, fix).because(why.trim())
}

/// The command that the arguments name, as far as they can be followed, with its full name.
fn named_command<'a>(commands: &'a clap::Command, arguments: &[OsString]) -> (String, &'a clap::Command) {
    let (mut path, mut command) = (commands.get_name().to_owned(), commands);
    let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if word == HELP {
            break;
        } else if let Some(found) = command.find_subcommand(&*word) {
            path = format!("{path} {}", found.get_name());
            command = found;
        } else if takes_the_next(command, &word) {
            words.next();
        } else if !word.starts_with('-') {
            break;
        }
    }
    (path, command)
}

/// Whether the word is a flag whose value is the next word.
fn takes_the_next(command: &clap::Command, word: &str) -> bool {
    command.get_arguments().filter(|flag| flag.get_action().takes_values()).any(|flag| {
        flag.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
            || flag.get_short().is_some_and(|short| word.strip_prefix('-') == Some(&*short.to_string()))
    })
}

fn subcommands(command: &clap::Command) -> String {
    let shown: Vec<_> =
        command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != HELP).collect();
    let width = shown.iter().map(|one| one.get_name().len()).max().unwrap_or(0);
    let line = |one: &&clap::Command| {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        format!("{:<width$}  {about}\n", one.get_name())
    };
    shown.iter().map(line).collect()
}

/// The arguments could not be parsed, so this searches them for the flag.
fn wants_json(arguments: &[OsString]) -> bool {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    words.windows(2).any(|pair| matches!(&*pair[0], "-o" | "--output") && pair[1].starts_with("json"))
        || words.iter().any(|word| word.starts_with("--output=json") || word.starts_with("-ojson"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::command_line;

    #[test]
    fn the_help_is_that_of_the_named_command() {
        for (line, expected) in [
            ("x", "tidemill"),
            ("x frobnicate", "tidemill"),
            ("x render cancel 1", "tidemill render cancel"),
            ("x -o json --config job token create", "tidemill token create"),
            ("x -ojson -q job --database=x recover 1", "tidemill job recover"),
            ("x job run job", "tidemill job run"),
            ("x job frobnicate run", "tidemill job"),
        ] {
            let arguments: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let mut commands = command_line();
            commands.build();
            assert_eq!(named_command(&commands, &arguments).0, expected, "{line}");
        }
    }

    #[test]
    fn a_group_without_a_subcommand_lists_those_that_there_are() {
        for line in ["x lease", "x lease -q"] {
            let arguments: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let error = command_line().try_get_matches_from(&arguments).unwrap_err();

            let failure = failure(error, command_line(), &arguments);

            let told = failure.summary();
            assert!(told.starts_with("`tidemill lease` needs a subcommand: list  List leases"), "{told}");
            assert_eq!(failure.fix, "see `tidemill lease --help`");
        }
    }
}
