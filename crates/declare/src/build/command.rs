//! Command steps: a program to run.

use super::Builder;
use super::names::rendered;
use crate::model::{At, CommandFile};
use crate::template::Template;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExitStatus;
use tidemill_engine::job::{CommandExit, CommandSpec, Step};

impl Builder<'_> {
    pub(super) fn command(&mut self, name: &str, file: &CommandFile) -> Option<Step> {
        let words = self.templates(&file.words)?;
        let env = self.named_templates(&file.env)?;
        let folder = match &file.folder {
            Some(text) => Some(self.template(text)?),
            None => None,
        };
        let declared = self.parameter_names();
        let (timeout, exit_codes) = (file.timeout, file.exit_codes.clone());
        Some(Step::command(name, move |scope| {
            let names = declared.in_step(scope);
            let texts: Vec<String> =
                words.iter().map(|word| rendered(word, &names)).collect::<Result<_, _>>()?;
            let (program, arguments) = texts.split_first().ok_or_else(empty)?;
            let mut command = CommandSpec::new(program).args(arguments);
            for (variable, text) in &env {
                command = command.env(variable, rendered(text, &names)?);
            }
            if let Some(folder) = &folder {
                command = command.folder(rendered(folder, &names)?);
            }
            if let Some(timeout) = timeout {
                command = command.timeout(timeout);
            }
            for (number, code) in &exit_codes {
                command = command.exit_code(*number, meaning(code));
            }
            Ok(command)
        }))
    }

    pub(super) fn templates(&mut self, texts: &[At<String>]) -> Option<Vec<Template>> {
        let read: Vec<Option<Template>> = texts.iter().map(|text| self.template(text)).collect();
        read.into_iter().collect()
    }

    pub(super) fn named_templates<'t>(
        &mut self,
        texts: impl IntoIterator<Item = (&'t String, &'t At<String>)>,
    ) -> Option<Vec<(String, Template)>> {
        let mut read = Vec::new();
        for (name, text) in texts {
            read.push((name.clone(), self.template(text)?));
        }
        Some(read)
    }
}

fn empty() -> ItemError {
    ItemError::new(ErrorKind::FATAL, "the command has no program")
}

/// A step that says `FAILED`, or something that begins so, has failed; any other word is how it completed.
fn meaning(code: &str) -> CommandExit {
    match code.starts_with(ExitStatus::FAILED) {
        true => CommandExit::failed(code),
        false => CommandExit::completed(code),
    }
}
