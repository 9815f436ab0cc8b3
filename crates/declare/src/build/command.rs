//! Steps that run a program, a Spark application (here or on EMR), SQL statements, or the job of another file.

use super::names::{ParameterNames, hinted, rendered};
use super::path::{FilePath, argument};
use super::{Builder, Built, DEPTH_MAX};
use crate::model::{At, CommandFile, EmrFile, JobCall, SparkFile, SqlFile};
use crate::template::Template;
use std::path::PathBuf;
use tidemill_aws::{EmrSpec, emr_step};
use tidemill_domain::item::ItemError;
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_domain::job::{ExitStatus, JobParameter, JobParameters};
use tidemill_engine::item::RootsError;
use tidemill_engine::item::sql::Database;
use tidemill_engine::job::{CommandExit, CommandSpec, SparkSpec, SqlStatements, Step, StepScope};

impl Builder<'_> {
    pub(super) fn command(&self, name: &str, file: &CommandFile, values: Vec<String>) -> Built<Step> {
        let Some((program, arguments)) = file.words.split_first() else {
            let (what, fix) = ("the command has no words", "write command: [PROGRAM, ARGUMENT...]");
            return Err(self.refusal(self.file.name.place, what, fix));
        };
        let (program, arguments) = (self.path(program, None)?, self.templates(arguments)?);
        let env = self.named_templates(&file.env.set)?;
        let folder = file.folder.as_ref().map(|text| self.path(text, None)).transpose()?;
        let (declared, specs, file) = (self.parameter_names(), self.file.specs(), file.clone());
        Ok(Step::command(name, move |scope| {
            let names = declared.in_step(scope);
            let mut command = CommandSpec::new(program.rendered(scope, &names)?).env_pass(&file.env.pass);
            for word in &arguments {
                command = command.arg(argument(word, scope, &names, &specs)?);
            }
            if file.env.is_cleared {
                command = command.env_clear();
            }
            for (variable, text) in &env {
                command = command.env(variable, rendered(text, &names)?);
            }
            if let Some(folder) = &folder {
                command = command.folder(working_folder(folder, folder.rendered(scope, &names)?)?);
            }
            if let Some(timeout) = file.timeout {
                command = command.timeout(timeout);
            }
            command = command.values(&values);
            for (number, code) in &file.exit_codes {
                command = command.exit_code(*number, meaning(code));
            }
            Ok(command)
        }))
    }

    pub(super) fn spark(&self, name: &str, file: &SparkFile, values: Vec<String>) -> Built<Step> {
        let app = self.path(&file.app, None)?;
        let (args, conf) = (self.templates(&file.args)?, self.named_templates(&file.conf)?);
        let master = file.master.as_ref().map(|text| self.template(text)).transpose()?;
        let (declared, specs, timeout) = (self.parameter_names(), self.file.specs(), file.timeout);
        Ok(Step::spark(name, move |scope| {
            let names = declared.in_step(scope);
            let word = |text: &Template| argument(text, scope, &names, &specs);
            let args: Vec<String> = args.iter().map(word).collect::<Result<_, _>>()?;
            let spark = SparkSpec::new(app.rendered(scope, &names)?).args(args);
            let mut spark = spark.command(|command| command.values(&values));
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

    pub(super) fn emr(&self, name: &str, file: &EmrFile) -> Built<Step> {
        let place = file.place.try_map(|text| self.template(text))?;
        let (app, args) = (self.template(&file.app)?, self.templates(&file.args)?);
        let conf = self.named_templates(&file.conf)?;
        let region = file.region.as_ref().map(|text| self.template(text)).transpose()?;
        let (declared, specs, timeout) = (self.parameter_names(), self.file.specs(), file.timeout);
        Ok(emr_step(name, move |scope| {
            let names = declared.in_step(scope);
            let word = |text: &Template| argument(text, scope, &names, &specs);
            let args: Vec<String> = args.iter().map(word).collect::<Result<_, _>>()?;
            let place = place.try_map(|text| rendered(text, &names))?;
            let mut emr = EmrSpec::new(place, word(&app)?).args(args);
            for (key, text) in &conf {
                emr = emr.conf(key, rendered(text, &names)?);
            }
            if let Some(region) = &region {
                emr = emr.region(rendered(region, &names)?);
            }
            Ok(timeout.into_iter().fold(emr, EmrSpec::timeout))
        }))
    }

    pub(super) fn sql(&self, name: &str, file: &SqlFile, set: &[(At<String>, At<String>)]) -> Built<Step> {
        let parsed = |text| self.parsed(text, Template::parse_sql, "correct the text");
        let statements = file.statements.iter().map(parsed).collect::<Built<Vec<_>>>()?;
        let set = set.iter().map(|(name, query)| Ok((name.value.clone(), parsed(query)?)));
        let set = set.collect::<Built<Vec<_>>>()?;
        let connection = self.connection(file.connection.as_ref())?;
        let declared = self.parameter_names();
        Ok(Step::sql(name, move |scope| {
            let names = declared.in_step(scope);
            let database = connection.clone().unwrap_or_else(|| Database::of(scope.store()));
            let bound = statements.iter().map(|statement| hinted(statement, scope).bind(&names, &database));
            let bound: Vec<_> = bound.collect::<Result<_, _>>().map_err(ItemError::fatal)?;
            let mut statements = SqlStatements::new(bound);
            for (name, query) in &set {
                let query = hinted(query, scope).bind(&names, &database).map_err(ItemError::fatal)?;
                statements = statements.value(name, query);
            }
            Ok(match &connection {
                Some(database) => statements.on(database.clone()),
                None => statements,
            })
        }))
    }

    pub(super) fn job_step(&self, name: &str, call: &JobCall) -> Built<Step> {
        let Some(inner) = self.building.jobs.iter().find(|file| file.name.value == call.job.value) else {
            let what = format!("there is no job {:?} in this folder", call.job.value);
            let fix = "name a job of another file of the same folder";
            return Err(self.refusal(call.job.place, what, fix));
        };
        if self.depth >= DEPTH_MAX {
            let what = format!("jobs run jobs more than {DEPTH_MAX} deep");
            return Err(self.refusal(call.job.place, what, "look whether a job runs itself"));
        }
        let job = Builder { file: inner, depth: self.depth + 1, ..*self }.job()?;
        let given = call.parameters.as_ref().map(|texts| self.named_templates(texts)).transpose()?;
        let (declared, specs) = (self.parameter_names(), inner.specs());
        Ok(Step::job(name, job, move |scope| parameters(scope, &declared, given.as_deref(), &specs)))
    }

    fn templates(&self, texts: &[At<String>]) -> Built<Vec<Template>> {
        texts.iter().map(|text| self.template(text)).collect()
    }

    fn named_templates<'t>(
        &self,
        texts: impl IntoIterator<Item = (&'t String, &'t At<String>)>,
    ) -> Built<Vec<(String, Template)>> {
        texts.into_iter().map(|(name, text)| Ok((name.clone(), self.template(text)?))).collect()
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

/// The given parameters, or those of the same name.
fn parameters(
    scope: &StepScope,
    declared: &ParameterNames,
    given: Option<&[(String, Template)]>,
    specs: &[ParameterSpec],
) -> Result<JobParameters, ItemError> {
    let mut parameters = JobParameters::new();
    let Some(given) = given else {
        // A job that declares no parameters accepts any.
        let is_taken = |name: &str| specs.is_empty() || specs.iter().any(|spec| spec.name == name);
        for (name, parameter) in scope.parameters().iter().filter(|(name, _)| is_taken(name)) {
            parameters.insert(name, parameter.clone()).map_err(ItemError::fatal)?;
        }
        return Ok(parameters);
    };
    let names = declared.in_step(scope);
    for (name, template) in given {
        let text = rendered(template, &names)?;
        let spec = specs.iter().find(|spec| spec.name == *name);
        let value = match spec {
            Some(spec) => spec.kind.read(&text).map_err(|error| {
                ItemError::fatal(format!("the parameter {name:?} of the inner job: {error}"))
            })?,
            None => text.into(),
        };
        let is_identifying = spec.is_none_or(|spec| spec.is_identifying);
        parameters.insert(name, JobParameter { value, is_identifying }).map_err(ItemError::fatal)?;
    }
    Ok(parameters)
}
