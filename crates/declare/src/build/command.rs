//! Command steps: a program to run.

use super::Builder;
use super::names::rendered;
use super::path::{FilePath, argument};
use crate::model::{At, CommandFile};
use crate::template::Template;
use std::path::PathBuf;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExitStatus;
use tidemill_engine::item::RootsError;
use tidemill_engine::job::{CommandExit, CommandSpec, Step};

impl Builder<'_> {
    pub(super) fn command(&mut self, name: &str, file: &CommandFile) -> Option<Step> {
        // A command without words was refused when the file was read.
        let (program, arguments) = file.words.split_first()?;
        let (program, arguments) = (self.path(program, None)?, self.templates(arguments)?);
        let (env, is_cleared, pass) =
            (self.named_templates(&file.env.set)?, file.env.is_cleared, file.env.pass.clone());
        let folder = match &file.folder {
            Some(text) => Some(self.path(text, None)?),
            None => None,
        };
        let (declared, specs) = (self.parameter_names(), self.specs());
        let (timeout, exit_codes) = (file.timeout, file.exit_codes.clone());
        Some(Step::command(name, move |scope| {
            let names = declared.in_step(scope);
            let mut command = CommandSpec::new(program.rendered(scope, &names)?).env_pass(&pass);
            for word in &arguments {
                command = command.arg(argument(word, scope, &names, &specs)?);
            }
            if is_cleared {
                command = command.env_clear();
            }
            for (variable, text) in &env {
                command = command.env(variable, rendered(text, &names)?);
            }
            if let Some(folder) = &folder {
                command = command.folder(working_folder(folder, folder.rendered(scope, &names)?)?);
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

/// Where the program runs. A folder that the file names by itself is the author's choice, like the program.
fn working_folder(path: &FilePath, rendered: String) -> Result<PathBuf, ItemError> {
    match path.roots_of_values() {
        Some(roots) => roots.existing(rendered.as_ref()).map_err(RootsError::ending),
        None => Ok(rendered.into()),
    }
}

/// A step that says `FAILED`, or something that begins so, has failed; any other word is how it completed.
fn meaning(code: &str) -> CommandExit {
    match code.starts_with(ExitStatus::FAILED) {
        true => CommandExit::failed(code),
        false => CommandExit::completed(code),
    }
}
