//! Checks the names that texts and expressions refer to.

use super::{Checker, all_steps, inner_flows};
use crate::diagnostic::{BadText, did_you_mean, excerpt};
use crate::expression::{CONTEXT, Expression};
use crate::model::{
    Allowance, AssertFile, At, ChunkFile, JobFile, ParameterFile, PartitionBy, PartitionsFile, ReadFile,
    StepFile, Work, WriteFile,
};
use crate::template::Template;
use std::collections::BTreeSet;
use tidemill_domain::job::flow::Target;
use tidemill_domain::nearest::nearest;

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
fn texts(step: &StepFile) -> Vec<(&At<String>, Kind, Vec<&'static str>)> {
    let of = |kind: Kind| move |text| (text, kind, &[][..]);
    let texts: Vec<(_, _, &[&str])> = match &step.work {
        Work::Chunk(chunk) => chunk_texts(chunk),
        Work::Command(command) => {
            let program = command.words.iter().take(1).chain(&command.folder).map(of(Kind::Path));
            let arguments = command.words.iter().skip(1).map(of(Kind::Argument));
            program.chain(arguments).chain(command.env.set.values().map(of(Kind::Plain))).collect()
        }
        Work::Sql(sql) => {
            let queries = step.set.iter().map(|(_, query)| query);
            sql.statements.iter().chain(queries).map(of(Kind::Sql)).collect()
        }
        Work::Assert(all) => all.iter().map(|one| of(Kind::Sql)(&one.query)).collect(),
        Work::Spark(spark) => {
            let app = std::iter::once(of(Kind::Path)(&spark.app));
            let arguments = spark.args.iter().chain(&spark.master).map(of(Kind::Argument));
            app.chain(arguments).chain(spark.conf.values().map(of(Kind::Plain))).collect()
        }
        Work::Emr(emr) => {
            let app = std::iter::once(of(Kind::Path)(&emr.app));
            let arguments = emr.args.iter().map(of(Kind::Argument));
            let plain = emr.place.texts().chain(&emr.region).chain(emr.conf.values()).map(of(Kind::Plain));
            app.chain(arguments).chain(plain).collect()
        }
        Work::Job(call) => call.parameters.iter().flatten().map(|(_, text)| of(Kind::Plain)(text)).collect(),
        Work::Flow(_) | Work::Split(_) | Work::Decide(_) => Vec::new(),
    };
    texts.into_iter().map(|(text, kind, own)| (text, kind, [own, granted_names(step)].concat())).collect()
}

fn chunk_texts(chunk: &ChunkFile) -> Vec<(&At<String>, Kind, &'static [&'static str])> {
    let mut texts = Vec::new();
    if let Some(At { value: PartitionsFile { by, .. }, .. }) = &chunk.partitions
        && let PartitionBy::File { pattern } | PartitionBy::RowGroup { pattern } = by
    {
        texts.push((pattern, Kind::Path, &[][..]));
    }
    let own = partition_names(chunk);
    let read = chunk.reads().filter_map(ReadFile::path);
    let files = read.chain(chunk.write.value.paths()).chain(chunk.reject()).chain(chunk.reject_source());
    texts.extend(files.map(|path| (path, Kind::Path, own)));
    for read in chunk.reads() {
        match read {
            ReadFile::Sql { query, .. } => texts.push((query, Kind::Sql, own)),
            ReadFile::Kafka(file) => {
                let of_topic = std::iter::once(&file.topic).chain(&file.from);
                texts.extend(of_topic.map(|text| (text, Kind::Plain, own)));
            }
            ReadFile::File(_) | ReadFile::Http(_) => {}
        }
    }
    for endpoint in chunk.endpoints() {
        texts.push((&endpoint.url, Kind::Path, own));
        texts.extend(endpoint.headers.iter().map(|(_, text)| (text, Kind::Plain, own)));
    }
    for write in chunk.write.value.all() {
        match write {
            WriteFile::Statement(file) => texts.push((&file.statement, Kind::Sql, own)),
            WriteFile::Kafka(file) => texts.push((&file.topic, Kind::Plain, own)),
            _ => {}
        }
    }
    for events in chunk.events() {
        texts.extend(
            [&events.topic, &events.aggregate_type, &events.event_type].map(|text| (text, Kind::Plain, own)),
        );
    }
    texts
}

/// Records which parameters are used in paths and arguments, so that a launch with an unsafe value is refused.
pub(crate) fn mark(file: &mut JobFile) {
    let (mut in_paths, mut in_arguments) = (BTreeSet::new(), BTreeSet::new());
    for step in all_steps(&file.steps) {
        for (text, kind, own) in texts(step) {
            let Ok(template) = Template::parse(&text.value) else { continue };
            let is_own = |name: &&str| own.contains(name);
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
        Some(PartitionBy::RowGroup { .. }) => &["file", "row_group"],
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

impl<'a> Checker<'a> {
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
        let steps = &self.file.steps;
        self.values.clear();
        if leads_back(steps) {
            self.values.extend(all_steps(steps).into_iter().flat_map(names_set_by));
        } else {
            set_before(steps, step, &mut self.values);
        }
        for (text, kind, own) in texts(step) {
            self.text(text, kind, &own);
        }
        match &step.work {
            Work::Decide(expression) => self.expression(expression, &["parameters", "context", "last"], &[]),
            Work::Assert(all) => all.iter().for_each(|one| self.assertion(one)),
            Work::Chunk(chunk) => {
                let read = chunk.read.value.columns();
                let process = &chunk.process;
                let mapped = process.filter.iter().chain(process.map.iter().map(|(_, text)| text));
                for expression in process.of_rows_read() {
                    self.expression(expression, &["row", "parameters", "context"], &read);
                }
                for expression in mapped {
                    self.expression(expression, &["row", "parameters", "context"], &chunk.joined_columns());
                }
                self.known_columns(process.named_columns(), &read);
                self.written(chunk);
            }
            _ => {}
        }
    }

    /// Expressions about what is written: they see the columns of `map`, if there is one.
    fn written(&mut self, chunk: &ChunkFile) {
        let mut of_items: Vec<&At<String>> = Vec::new();
        for events in chunk.events() {
            of_items.extend(std::iter::once(&events.aggregate_id).chain(&events.payload));
            of_items.extend(events.headers.iter().map(|(_, text)| text));
        }
        for write in chunk.write.value.all() {
            match write {
                WriteFile::Kafka(file) => of_items.extend(file.expressions()),
                WriteFile::Choose(branches) => {
                    of_items.extend(branches.iter().filter_map(|branch| branch.when.as_ref()));
                }
                _ => {}
            }
        }
        for expression in of_items {
            self.expression(expression, &["row", "parameters", "context"], &chunk.columns());
        }
    }

    fn assertion(&mut self, file: &AssertFile) {
        self.expression(&file.expect, &["value", "row", "rows", "now", "parameters", "context"], &[]);
        let query = file.query.value.trim_start().to_lowercase();
        let counts = ["select count(", "select sum(", "select max(", "select min("];
        let is_one_row = counts.iter().any(|start| query.starts_with(start))
            && !["group by", "having", "over"].iter().any(|word| query.contains(word));
        let uses_rows = Expression::parse(&file.expect.value)
            .is_ok_and(|expect| expect.variables().iter().any(|(name, _)| name == "rows"));
        if is_one_row && uses_rows {
            let what = "the query returns one row, whatever is in the table, so rows is always 1";
            self.wrong(&file.expect, what, "compare value, which is the first column: expect: \"value > 0\"");
        }
    }

    /// Reports names in a step's texts that would have no value at a launch.
    pub(super) fn given(&mut self, step: &StepFile, is_given: &impl Fn(&str) -> bool) {
        for (text, _, own) in texts(step) {
            let Ok(template) = Template::parse(&text.value) else { continue };
            for (name, offset) in template.names() {
                let has_default =
                    self.file.parameter(name).is_some_and(|declared| declared.default.is_some());
                let is_value = name.starts_with(CONTEXT) && self.file.parameter(name).is_none();
                if own.contains(&name.as_str()) || has_default || is_value || is_given(name) {
                    continue;
                }
                let what = format!("the parameter {name:?} is needed here, and was not given");
                let fix = format!("give it with -p {name}=VALUE, or declare a default");
                self.wrong_inside(text, *offset, name.chars().count() + 3, what, fix);
            }
        }
    }

    fn declared(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.file.parameters.iter().map(|declared| declared.value.spec.name.as_str())
    }

    /// Whether an earlier step sets it, or may: of some steps it is not known.
    fn sets(&self, name: &str) -> bool {
        !self.gaps.steps.is_empty() || self.values.contains(&name)
    }

    /// Names must be usable in expressions.
    pub(super) fn values_of(&mut self, step: &StepFile) {
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        for name in step.set_names().filter(|name| !is_name(&name.value)) {
            let what = format!("{:?} cannot be the name of a value", excerpt(&name.value));
            self.wrong(name, what, "use ASCII letters, digits and _ only, so that context.NAME can name it");
        }
    }

    fn text(&mut self, text: &At<String>, kind: Kind, own: &[&str]) {
        let read = match kind {
            Kind::Plain | Kind::Path | Kind::Argument => Template::parse(&text.value),
            Kind::Sql => Template::parse_sql(&text.value),
        };
        let template = match read {
            Ok(template) if !self.gaps.has_unknown_parameters => template,
            Ok(_) => return,
            Err(bad) => return self.bad(text, &bad, ("text", 2), "correct what stands from here on"),
        };
        let known: Vec<&str> = own.iter().copied().chain(self.declared()).collect();
        let values = self.values.clone();
        for (name, offset) in template.names().iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let (what, fix, why) = match name.strip_prefix(CONTEXT) {
                Some(value) if self.sets(value) => continue,
                Some(value) => {
                    let what = format!("${{{name}}} names no value that an earlier step sets");
                    (what, unset(value, &values, "${context.", "}"), listed_values(&values))
                }
                None => (format!("${{{name}}} names no parameter"), missing(name, &known), listed(&known)),
            };
            self.wrong_inside(text, *offset, name.chars().count() + 3, what, fix).why = why;
        }
    }

    /// `columns` are those of `row`; none if they are not known.
    fn expression(&mut self, text: &At<String>, allowed: &[&str], columns: &[String]) {
        let expression = match Expression::parse(&text.value) {
            Ok(expression) => expression,
            Err(bad) => {
                let fix = "correct the expression; it is CEL, such as row.amount != ''";
                return self.bad(text, &bad, ("expression", 1), fix);
            }
        };
        for (variable, offset) in expression.variables() {
            if !allowed.contains(&variable.as_str()) {
                self.variable(text, (variable, *offset), allowed);
            }
        }
        if !self.gaps.has_unknown_parameters {
            let parameters: Vec<&str> = self.declared().collect();
            self.fields(text, &expression, "parameters", "parameter", &parameters);
        }
        let values = self.values.clone();
        for (name, offset) in expression.fields("context") {
            if !self.sets(&name) {
                let what = format!("no earlier step sets the value {:?}", excerpt(&name));
                let fix = unset(&name, &values, "context.", "");
                self.wrong_inside(text, offset, name.chars().count(), what, fix).why = listed_values(&values);
            }
        }
        if !columns.is_empty() {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            self.fields(text, &expression, "row", "column", &columns);
        }
    }

    /// Reports columns that are not read. `columns` are those that are; none if they are not known.
    fn known_columns<'c>(&mut self, named: impl Iterator<Item = &'c At<String>>, columns: &[String]) {
        let known: Vec<&str> = columns.iter().map(String::as_str).collect();
        for name in named.filter(|name| !known.is_empty() && !known.contains(&name.value.as_str())) {
            let fix =
                did_you_mean(&name.value, known.iter().copied(), || "name a column that is read".to_owned());
            let what = format!("there is no column {:?}", excerpt(&name.value));
            self.wrong(name, what, fix).why = Some(format!("there are {}", known.join(", ")));
        }
    }

    /// A text that cannot be parsed. The message has the fix behind its last semicolon.
    fn bad(&mut self, text: &At<String>, bad: &BadText, (noun, chars): (&str, usize), otherwise: &str) {
        let (what, fix) = bad.message.rsplit_once("; ").unwrap_or((&bad.message, otherwise));
        self.wrong_inside(text, bad.offset, chars, format!("this {noun} cannot be used: {what}"), fix);
    }

    fn variable(&mut self, text: &At<String>, (variable, offset): (&str, usize), allowed: &[&str]) {
        let is_parameter = self.declared().any(|name| name == variable);
        let fix = match (nearest(variable, allowed.iter().copied()), variable) {
            (_, "row") => "a decision has no row; use parameters, context or last".to_owned(),
            _ if is_parameter => format!("write parameters.{variable}"),
            (Some(near), _) => format!("did you mean {near}?"),
            (None, "last") => "only decide has last".to_owned(),
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
    fn fields(&mut self, text: &At<String>, expression: &Expression, of: &str, noun: &str, known: &[&str]) {
        for (name, offset) in expression.fields(of) {
            // `parameters.run.id` parses as the field `run`, and the parameter is called `run.id`.
            let is_known = |known: &&str| {
                known.strip_prefix(&*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            if known.iter().any(is_known) {
                continue;
            }
            let fix = match nearest(&name, known.iter().copied()) {
                Some(near) => format!("did you mean {of}.{near}?"),
                None if noun == "parameter" => {
                    format!("declare it: parameters: {{ {name}: {{ type: string, required: true }} }}")
                }
                None => "correct the name, or add it to columns".to_owned(),
            };
            let what = format!("there is no {noun} {:?}", excerpt(&name));
            self.wrong_inside(text, offset, name.chars().count(), what, fix).why = listed(known);
        }
    }
}

fn names_set_by(step: &StepFile) -> impl Iterator<Item = &str> {
    step.set_names().map(|name| name.value.as_str())
}

/// Adds the values that are set before a step, in the order of the file. Flows of a split run at the same time, so those
/// beside that of the step do not count. True if the step was found.
fn set_before<'f>(steps: &'f [StepFile], step: &StepFile, values: &mut Vec<&'f str>) -> bool {
    for each in steps {
        if std::ptr::eq(each, step) {
            return true;
        }
        let mut beside = Vec::new();
        for flow in inner_flows(each) {
            let mut inner = Vec::new();
            if set_before(flow, step, &mut inner) {
                values.extend(inner);
                return true;
            }
            beside.extend(inner);
        }
        values.extend(beside.into_iter().chain(names_set_by(each)));
    }
    false
}

/// Whether a transition leads to a step before it, so that a later step may have run already.
fn leads_back(steps: &[StepFile]) -> bool {
    steps.iter().enumerate().any(|(index, step)| {
        let is_back = |target: &Target| {
            matches!(target, Target::To(to) | Target::Stop(Some(to))
                if steps[..=index].iter().any(|before| before.name.value == *to))
        };
        step.on.iter().any(|(_, target)| is_back(&target.value))
            || inner_flows(step).iter().any(|flow| leads_back(flow))
    })
}

/// The fix for a value that no step sets; `before` and `after` stand around its name.
fn unset(name: &str, known: &[&str], before: &str, after: &str) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {before}{near}{after}?"),
        None => format!("set it in an earlier step: set: {{ {name}: \"select …\" }}"),
    }
}

fn listed_values(known: &[&str]) -> Option<String> {
    Some(match known {
        [] => "no earlier step sets a value".to_owned(),
        _ => format!("earlier steps set {}", known.join(", ")),
    })
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
    Some(match known {
        [] => "the job declares no parameters".to_owned(),
        _ => format!("there are {}", known.join(", ")),
    })
}
