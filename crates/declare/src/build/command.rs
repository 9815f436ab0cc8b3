//! Steps that run a program, a Spark application, or SQL statements.

use super::names::{hinted, rendered};
use super::path::{FilePath, argument};
use super::{Builder, optional};
use crate::model::{At, CommandFile, SparkFile, SqlFile};
use crate::parse::all;
use crate::template::Template;
use std::path::PathBuf;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExitStatus;
use tidemill_engine::item::RootsError;
use tidemill_engine::item::sql::Database;
use tidemill_engine::job::{CommandExit, CommandSpec, SparkSpec, SqlStatements, Step};

impl Builder<'_> {
    pub(super) fn command(&mut self, name: &str, file: &CommandFile) -> Option<Step> {
        // A command without words was refused when the file was read.
        let (program, arguments) = file.words.split_first()?;
        let (program, arguments) = (self.path(program, None)?, self.templates(arguments)?);
        let (env, is_cleared, pass) =
            (self.named_templates(&file.env.set)?, file.env.is_cleared, file.env.pass.clone());
        let folder = optional(file.folder.as_ref(), |text| self.path(text, None))?;
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

    pub(super) fn spark(&mut self, name: &str, file: &SparkFile) -> Option<Step> {
        let app = self.path(&file.app, None)?;
        let args = self.templates(&file.args)?;
        let conf = self.named_templates(&file.conf)?;
        let master = optional(file.master.as_ref(), |text| self.template(text))?;
        let (declared, specs, timeout) = (self.parameter_names(), self.specs(), file.timeout);
        Some(Step::spark(name, move |scope| {
            let names = declared.in_step(scope);
            let word = |text: &Template| argument(text, scope, &names, &specs);
            let args: Vec<String> = args.iter().map(word).collect::<Result<_, _>>()?;
            let mut spark = SparkSpec::new(app.rendered(scope, &names)?).args(args);
            if let Some(master) = &master {
                spark = spark.master(word(master)?);
            }
            for (key, text) in &conf {
                spark = spark.conf(key, rendered(text, &names)?);
            }
            Ok(match timeout {
                Some(timeout) => spark.command(move |command| command.timeout(timeout)),
                None => spark,
            })
        }))
    }

    pub(super) fn sql(&mut self, name: &str, file: &SqlFile) -> Option<Step> {
        let statements = all(file.statements.iter().map(|text| self.sql_template(text)))?;
        let connection = self.connection(file.connection.as_ref())?;
        let declared = self.parameter_names();
        Some(Step::sql(name, move |scope| {
            let names = declared.in_step(scope);
            let database = connection.clone().unwrap_or_else(|| Database::of(scope.store()));
            let bound = statements.iter().map(|statement| hinted(statement, scope).bind(&names, &database));
            let bound: Vec<_> =
                bound.collect::<Result<_, _>>().map_err(|error| ItemError::of(ErrorKind::FATAL, error))?;
            let statements = SqlStatements::new(bound);
            Ok(match &connection {
                Some(database) => statements.on(database.clone()),
                None => statements,
            })
        }))
    }

    fn templates(&mut self, texts: &[At<String>]) -> Option<Vec<Template>> {
        all(texts.iter().map(|text| self.template(text)))
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

/// A folder that the file names without parameters is the author's choice, like the program.
fn working_folder(path: &FilePath, rendered: String) -> Result<PathBuf, ItemError> {
    match path.roots_of_values() {
        Some(roots) => roots.existing(rendered.as_ref()).map_err(RootsError::ending),
        None => Ok(rendered.into()),
    }
}

/// An exit code that begins with `FAILED` means failure; any other word means completion.
fn meaning(code: &str) -> CommandExit {
    match code.starts_with(ExitStatus::FAILED) {
        true => CommandExit::failed(code),
        false => CommandExit::completed(code),
    }
}
