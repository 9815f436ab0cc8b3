//! Checks the names that texts and expressions refer to.

use super::{Checker, all_steps};
use crate::diagnostic::excerpt;
use crate::expression::Expression;
use crate::model::{
    Allowance, At, ChunkFile, JobFile, ParameterFile, PartitionBy, ReadFile, StepFile, Work, WriteFile,
};
use crate::template::Template;
use std::collections::BTreeSet;
use tidemill_domain::nearest::nearest;
use tidemill_kafka::reader::record::COLUMNS;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Values become part of it.
    Plain,
    /// A file or folder: values must not lead elsewhere.
    Path,
    /// An argument of a program: values must not become an option.
    Argument,
    Sql,
}

/// The texts of a step that may contain `${name}`, and the names they may use besides parameters.
fn texts(step: &StepFile) -> Vec<(&At<String>, Kind, &'static [&'static str])> {
    let of = |kind: Kind| move |text| (text, kind, &[][..]);
    let plain = of(Kind::Plain);
    match &step.work {
        Work::Chunk(chunk) => chunk_texts(chunk),
        Work::Command(command) => {
            let program = command.words.iter().take(1).map(of(Kind::Path));
            let arguments = command.words.iter().skip(1).map(of(Kind::Argument));
            let env = command.env.set.values().map(plain);
            program.chain(arguments).chain(env).chain(command.folder.iter().map(of(Kind::Path))).collect()
        }
        Work::Sql(sql) => sql.statements.iter().map(|text| (text, Kind::Sql, &[][..])).collect(),
        Work::Spark(spark) => {
            let app = std::iter::once(of(Kind::Path)(&spark.app));
            let arguments = spark.args.iter().chain(&spark.master).map(of(Kind::Argument));
            app.chain(arguments).chain(spark.conf.values().map(plain)).collect()
        }
        Work::Job(call) => call.parameters.iter().flat_map(|given| given.values()).map(plain).collect(),
        Work::Flow(_) | Work::Split(_) | Work::Decide(_) => Vec::new(),
    }
}

fn chunk_texts(chunk: &ChunkFile) -> Vec<(&At<String>, Kind, &'static [&'static str])> {
    let own = partition_names(chunk);
    let mut texts = Vec::new();
    if let Some(partitions) = &chunk.partitions
        && let PartitionBy::File { pattern } = &partitions.value.by
    {
        texts.push((pattern, Kind::Path, &[][..]));
    }
    match &chunk.read.value {
        ReadFile::Csv(csv) => texts.push((&csv.path, Kind::Path, own)),
        ReadFile::JsonLines { path } => texts.push((path, Kind::Path, own)),
        ReadFile::Sql { query, .. } => texts.push((query, Kind::Sql, own)),
        ReadFile::Kafka(file) => {
            texts.extend(std::iter::once(&file.topic).chain(&file.from).map(|text| (text, Kind::Plain, own)));
        }
    }
    match &chunk.write.value {
        WriteFile::Csv(csv) => texts.push((&csv.path, Kind::Path, own)),
        WriteFile::JsonLines { path } => texts.push((path, Kind::Path, own)),
        WriteFile::Sql { .. } | WriteFile::Outbox(_) => {}
    }
    if let Some(events) = chunk.events() {
        texts.extend(
            [&events.topic, &events.aggregate_type, &events.event_type].map(|text| (text, Kind::Plain, own)),
        );
    }
    let reject = chunk.skip.as_ref().and_then(|skip| skip.reject.as_ref());
    texts.extend(reject.map(|text| (text, Kind::Path, own)));
    texts
}

/// Records which parameters are used in paths and arguments, so that a launch with an unsafe value is refused.
pub(crate) fn mark(file: &mut JobFile) {
    let (mut in_paths, mut in_arguments) = (BTreeSet::new(), BTreeSet::new());
    for step in all_steps(&file.steps) {
        for (text, kind, own) in texts(step) {
            let Ok(template) = Template::parse(&text.value) else { continue };
            let is_own = |name: &&str| own.iter().chain(granted_names(step)).any(|own| own == name);
            let all = template.names().iter().map(|(name, _)| name.as_str());
            match kind {
                Kind::Path => in_paths.extend(all.filter(|name| !is_own(name)).map(str::to_owned)),
                Kind::Argument => {
                    let first = template.first_names().filter(|name| !is_own(name));
                    in_arguments.extend(first.map(str::to_owned));
                }
                Kind::Plain | Kind::Sql => {}
            }
        }
    }
    for ParameterFile { spec, allows, .. } in file.parameters.iter_mut().map(|parameter| &mut parameter.value)
    {
        let is_in =
            |used: &BTreeSet<String>, allowance| used.contains(&spec.name) && !allows.contains(&allowance);
        (spec.accepted.is_in_path, spec.accepted.is_argument) =
            (is_in(&in_paths, Allowance::Path), is_in(&in_arguments, Allowance::Option));
    }
}

/// Names that a partition adds.
pub(super) fn partition_names(chunk: &ChunkFile) -> &'static [&'static str] {
    match chunk.partitions.as_ref().map(|partitions| &partitions.value.by) {
        Some(PartitionBy::File { .. }) => &["file"],
        Some(PartitionBy::Range { .. }) => &["range.from", "range.to"],
        None => &[],
    }
}

/// Names that a pool adds.
fn granted_names(step: &StepFile) -> &'static [&'static str] {
    match &step.pool {
        Some(pool) if pool.value.hint.is_some() => &["units", "hint"],
        Some(_) => &["units"],
        None => &[],
    }
}

impl Checker<'_> {
    /// A partition count that a pool grants needs a pool.
    pub(super) fn granted(&mut self, step: &StepFile) {
        if let Work::Chunk(chunk) = &step.work
            && let Some(partitions) = &chunk.partitions
            && matches!(partitions.value.by, PartitionBy::Range { count: None, .. })
            && step.pool.is_none()
        {
            let what = "the partitions are as many as a pool grants, and the step has no pool";
            let fix = "add pool: with its name to the step, or write a number for count";
            self.wrong_at(partitions.place, 1, what, fix);
        }
    }

    pub(super) fn references(&mut self, step: &StepFile) {
        for (text, kind, own) in texts(step) {
            self.text(text, kind, &[own, granted_names(step)].concat());
        }
        match &step.work {
            Work::Decide(expression) => self.expression(expression, &["parameters", "context", "last"], None),
            Work::Chunk(chunk) => {
                let of_topics = COLUMNS.map(str::to_owned);
                let columns = match &chunk.read.value {
                    ReadFile::Csv(csv) if !csv.columns.is_empty() => Some(csv.columns.as_slice()),
                    ReadFile::Kafka(_) => Some(of_topics.as_slice()),
                    _ => None,
                };
                self.event_expressions(chunk, columns);
                for expression in
                    chunk.filter.iter().chain(chunk.map.iter().map(|(_, expression)| expression))
                {
                    self.expression(expression, &["row", "parameters"], columns);
                }
            }
            _ => {}
        }
    }

    /// Events are made of what is written: the columns of `map`, if there is one.
    fn event_expressions(&mut self, chunk: &ChunkFile, read: Option<&[String]>) {
        let Some(events) = chunk.events() else { return };
        let mapped: Vec<String> = chunk.map.iter().map(|(column, _)| column.value.clone()).collect();
        let columns = if mapped.is_empty() { read } else { Some(mapped.as_slice()) };
        let of_items = std::iter::once(&events.aggregate_id).chain(&events.payload);
        for expression in of_items.chain(events.headers.iter().map(|(_, expression)| expression)) {
            self.expression(expression, &["row", "parameters"], columns);
        }
    }

    /// Reports names in a step's texts that would have no value at a launch.
    pub(super) fn given(&mut self, step: &StepFile, is_given: &impl Fn(&str) -> bool) {
        for (text, _, own) in texts(step) {
            let Ok(template) = Template::parse(&text.value) else { continue };
            for (name, offset) in template.names() {
                let declared = self.file.parameters.iter().find(|declared| declared.value.spec.name == *name);
                let has_default = declared.is_some_and(|declared| declared.value.default.is_some());
                let is_own = own.iter().chain(granted_names(step)).any(|own| own == name);
                if is_own || has_default || is_given(name) {
                    continue;
                }
                let what = format!("the parameter {name:?} is needed here, and was not given");
                let fix = format!("give it with -p {name}=VALUE, or declare a default");
                self.wrong_inside(text, *offset, name.chars().count() + 3, what, fix);
            }
        }
    }

    fn declared(&self) -> Vec<&str> {
        self.file.parameters.iter().map(|declared| declared.value.spec.name.as_str()).collect()
    }

    fn text(&mut self, text: &At<String>, kind: Kind, own: &[&str]) {
        let read = match kind {
            Kind::Plain | Kind::Path | Kind::Argument => Template::parse(&text.value),
            Kind::Sql => Template::parse_sql(&text.value),
        };
        let template = match read {
            Ok(template) => template,
            Err(error) => {
                let (what, fix) = halves(&error.message, "correct what stands from here on");
                self.wrong_inside(text, error.offset, 2, format!("this text cannot be used: {what}"), fix);
                return;
            }
        };
        if self.gaps.has_unknown_parameters {
            return;
        }
        let file = self.file;
        for (name, offset) in template.names() {
            let mut known: Vec<&str> = own.to_vec();
            known.extend(file.parameters.iter().map(|declared| declared.value.spec.name.as_str()));
            if known.contains(&name.as_str()) {
                continue;
            }
            let what = format!("${{{name}}} names no parameter");
            let fix = missing(name, &known);
            self.wrong_inside(text, *offset, name.chars().count() + 3, what, fix).why = listed(&known);
        }
    }

    fn expression(&mut self, text: &At<String>, allowed: &[&str], columns: Option<&[String]>) {
        let expression = match Expression::parse(&text.value) {
            Ok(expression) => expression,
            Err(error) => {
                let (what, fix) =
                    halves(&error.message, "correct the expression; it is CEL, such as row.amount != ''");
                let what = format!("this expression cannot be used: {what}");
                self.wrong_inside(text, error.offset, 1, what, fix);
                return;
            }
        };
        for variable in expression.variables() {
            if !allowed.contains(&variable.as_str()) {
                self.variable(text, &expression, &variable, allowed);
            }
        }
        if !self.gaps.has_unknown_parameters {
            let parameters = self.declared().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            self.fields(text, &expression, "parameters", "parameter", &parameters);
        }
        if let Some(columns) = columns {
            self.fields(text, &expression, "row", "column", columns);
        }
    }

    fn variable(&mut self, text: &At<String>, expression: &Expression, variable: &str, allowed: &[&str]) {
        let offset = expression.offset_of(variable).unwrap_or_default();
        let is_parameter = self.declared().contains(&variable);
        let fix = match (nearest(variable, allowed.iter().copied()), variable) {
            (_, "row") => "a decision has no row; use parameters, context or last".to_owned(),
            _ if is_parameter => format!("write parameters.{variable}"),
            (Some(near), _) => format!("did you mean {near}?"),
            (None, "last" | "context") => "only decide has last and context".to_owned(),
            _ if allowed.contains(&"row") => {
                format!(
                    "write row.{variable} for a column, parameters.{variable} for a parameter, or quote a text"
                )
            }
            _ => format!("write parameters.{variable} for a parameter, or quote a text"),
        };
        let what = format!("there is no variable {:?} here", excerpt(variable));
        let why = format!("an expression at this place knows {}", allowed.join(", "));
        self.wrong_inside(text, offset, variable.chars().count(), what, fix).why = Some(why);
    }

    /// Fields of a variable whose fields are all known.
    fn fields(&mut self, text: &At<String>, expression: &Expression, of: &str, noun: &str, known: &[String]) {
        for (name, offset) in expression.fields(of) {
            // `parameters.run.id` parses as the field `run`, and the parameter is called `run.id`.
            let is_beginning =
                |known: &String| known.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.'));
            if known.contains(&name) || known.iter().any(is_beginning) {
                continue;
            }
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let fix = match nearest(&name, known.iter().copied()) {
                Some(near) => format!("did you mean {of}.{near}?"),
                None if noun == "parameter" => {
                    format!("declare it: parameters: {{ {name}: {{ type: string, required: true }} }}")
                }
                None => "correct the name, or add it to columns".to_owned(),
            };
            let what = format!("there is no {noun} {:?}", excerpt(&name));
            self.wrong_inside(text, offset, name.chars().count(), what, fix).why = listed(&known);
        }
    }
}

fn missing(name: &str, known: &[&str]) -> String {
    match (name, nearest(name, known.iter().copied())) {
        ("hint", _) => {
            "hint is known in a step whose pool has one: pool: { name: adw, hint: \"/*+ PARALLEL(16) */\" }"
                .to_owned()
        }
        ("units", _) => {
            "units is known in a step with a pool, such as pool: adw; declare it otherwise".to_owned()
        }
        (_, Some(near)) => format!("did you mean ${{{near}}}?"),
        ("file" | "range.from" | "range.to", None) => {
            format!("{name} is known in a step with partitions; declare it under parameters otherwise")
        }
        _ => format!("declare it: parameters: {{ {name}: {{ type: string, required: true }} }}"),
    }
}

fn listed(known: &[&str]) -> Option<String> {
    match known {
        [] => Some("the job declares no parameters".to_owned()),
        _ => Some(format!("there are {}", known.join(", "))),
    }
}

/// Splits a message into problem and fix.
fn halves<'m>(message: &'m str, otherwise: &'m str) -> (&'m str, &'m str) {
    message.rsplit_once("; ").unwrap_or((message, otherwise))
}
