//! Checks a job that could be parsed: names, flow, texts, expressions, columns, other files and connections.

mod call;
mod chunk;
mod file;
mod flow;
mod http;
mod reference;

use crate::Known;
use crate::diagnostic::{Diagnostic, Diagnostics, PROBLEMS_MAX, did_you_mean};
use crate::model::{At, JobFile, PartitionBy, Place, ReadFile, StepFile, Work, WriteFile};
use crate::parse::Gaps;
use tidemill_domain::job::JobParameters;
use tidemill_domain::job::parameter::{
    PARAMETER_NAME_CHARS_MAX, ParameterProblem, check as check_parameters,
};

pub(crate) use call::invalid_calls;
#[cfg(not(feature = "columnar"))]
pub(crate) use file::BUILT_WITHOUT_COLUMNAR;
pub(crate) use reference::mark;

/// The files of the same folder, which jobs can call.
pub(crate) struct Neighbours<'a> {
    pub(crate) files: Vec<&'a JobFile>,
    /// Jobs of files with mistakes: they exist, but their parameters may be unknown.
    pub(crate) invalid: Vec<&'a str>,
}

/// Checks connections, alert channels, called jobs and their parameters.
pub(crate) fn outside(
    file: &JobFile,
    gaps: &Gaps,
    known: &Known<'_>,
    neighbours: &Neighbours<'_>,
) -> Vec<Diagnostic> {
    let mut checker = Checker { gaps: gaps.clone(), ..Checker::of(file) };
    for step in all_steps(&file.steps) {
        checker.connections(step, known.connections);
        if known.lacks_objects {
            checker.objects(step);
        }
    }
    checker.channels(known.channels);
    checker.calls(neighbours);
    checker.problems
}

/// Refuses a launch without a parameter that a text of the file needs and that has no default.
pub fn check_given(file: &JobFile, is_given: impl Fn(&str) -> bool) -> Result<(), Diagnostics> {
    let mut checker = Checker::of(file);
    for step in all_steps(&file.steps) {
        checker.given(step, &is_given);
    }
    Diagnostics::of(checker.problems).map_or(Ok(()), Err)
}

/// Everything that can be checked in the file alone.
pub(crate) fn alone(file: &JobFile, gaps: &Gaps) -> Vec<Diagnostic> {
    let mut checker = Checker { gaps: gaps.clone(), ..Checker::of(file) };
    checker.parameters();
    if !gaps.has_bad_parameters {
        checker.schedule();
    }
    checker.names_and_flow();
    for step in all_steps(&file.steps) {
        // More problems than a person reads, and finding their places takes time.
        if checker.problems.len() > PROBLEMS_MAX {
            break;
        }
        checker.references(step);
        checker.granted(step);
        checker.values_of(step);
        if let Work::Chunk(chunk) = &step.work {
            checker.chunk(chunk);
        }
    }
    checker.problems
}

/// Includes the steps of inner flows, in the order of the file.
pub(crate) fn all_steps(steps: &[StepFile]) -> Vec<&StepFile> {
    let mut all = Vec::new();
    for step in steps {
        all.push(step);
        for inner in inner_flows(step) {
            all.extend(all_steps(inner));
        }
    }
    all
}

fn inner_flows(step: &StepFile) -> &[Vec<StepFile>] {
    match &step.work {
        Work::Flow(steps) => std::slice::from_ref(steps),
        Work::Split(flows) => flows,
        _ => &[],
    }
}

pub(crate) struct Checker<'a> {
    file: &'a JobFile,
    gaps: Gaps,
    /// The names of values that steps before the current one set.
    values: Vec<&'a str>,
    pub(crate) problems: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    /// Checks every part of the schedule, and the parameters of its launches.
    fn schedule(&mut self) {
        let Some(At { value: file, place }) = &self.file.schedule else { return };
        if let Err(bad) = file.schedule.plan_for(&self.file.specs()) {
            let place = file.places.get(&bad.part).copied().unwrap_or(*place);
            let what = format!("the schedule cannot be kept: {}: {}", bad.part, bad.why);
            self.wrong_at(place, 1, what, "see docs/guide/schedules.md");
        }
    }

    /// Checks names and defaults of the declared parameters.
    fn parameters(&mut self) {
        for declared in &self.file.parameters {
            let (spec, place) = (&declared.value.spec, declared.place);
            let name = At { value: spec.name.clone(), place };
            if !is_name(&spec.name) {
                let what = format!("{:?} cannot be the name of a parameter", spec.name);
                let fix = "use letters, digits, _, - and . only, so that ${…} can name it";
                self.wrong(&name, what, fix);
                continue;
            }
            let Some(default) = &declared.value.default else { continue };
            // A default of the wrong type was already reported.
            let Ok(value) = spec.kind.read(default) else { continue };
            let launch = JobParameters::new().with(spec.name.clone(), value);
            if let Err(refusal) = check_parameters(&launch, std::slice::from_ref(spec)) {
                let why =
                    refusal.problems.iter().map(ParameterProblem::to_string).collect::<Vec<_>>().join("; ");
                let what = format!("the default of {} is not accepted", spec.name);
                let is_bounded =
                    |problem: &ParameterProblem| matches!(problem, ParameterProblem::OutOfBounds(_));
                let fix = match refusal.problems.iter().any(is_bounded) {
                    true => "shorten the name or the default",
                    false => "correct the default, or what is accepted",
                };
                self.wrong(&name, what, fix).why = Some(why);
            }
        }
    }

    pub(crate) fn of(file: &'a JobFile) -> Self {
        Self { file, gaps: Gaps::default(), values: Vec::new(), problems: Vec::new() }
    }

    /// A problem with a whole text.
    pub(crate) fn wrong(
        &mut self,
        text: &At<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> &mut Diagnostic {
        let line = self.file.source.line(text.place.line).unwrap_or_default();
        let opener = line.chars().nth(text.place.column.saturating_sub(1));
        let quotes = if matches!(opener, Some('"' | '\'')) { 2 } else { 0 };
        let chars = text.value.lines().next().unwrap_or_default().chars().count() + quotes;
        self.wrong_at(text.place, chars, what, fix)
    }

    /// A problem with a part of a text, from the byte `offset` on.
    fn wrong_inside(
        &mut self,
        text: &At<String>,
        offset: usize,
        chars: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> &mut Diagnostic {
        let place = self.file.source.inside(text.place, &text.value, offset);
        self.wrong_at(place, chars, what, fix)
    }

    fn wrong_at(
        &mut self,
        place: Place,
        chars: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> &mut Diagnostic {
        self.problems.push(Diagnostic::at(&self.file.source, place, chars, what, fix));
        self.problems.last_mut().expect("a problem was pushed just before")
    }

    fn channels(&mut self, known: Option<&[String]>) {
        let Some(known) = known else { return };
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for (index, (_, channel)) in self.file.notify.iter().enumerate() {
            // It is there once for each end.
            let is_repeated = self.file.notify[..index].iter().any(|(_, other)| other.place == channel.place);
            if is_repeated || known.contains(&channel.value.as_str()) {
                continue;
            }
            let name = &channel.value;
            let fix = did_you_mean(name, known.iter().copied(), || {
                format!(
                    "add [alert.mail.{name}], [alert.webhooks.{name}] or [alert.sns.{name}] to the configuration"
                )
            });
            let why = format!("the channels are {}", known.join(", "));
            self.wrong(channel, format!("there is no alert channel {name:?}"), fix).why = Some(why);
        }
    }

    fn connections(&mut self, step: &StepFile, known: &[String]) {
        let named = match &step.work {
            Work::Sql(sql) => vec![sql.connection.as_ref()],
            Work::Assert(all) => all.iter().map(|one| one.connection.as_ref()).collect(),
            Work::Chunk(chunk) => {
                let reading = chunk.reads().map(|read| match read {
                    ReadFile::Sql { connection, .. } => connection.as_ref(),
                    _ => None,
                });
                let dividing = match chunk.partitions.as_ref().map(|partitions| &partitions.value.by) {
                    Some(PartitionBy::Range { connection, .. }) => connection.as_ref(),
                    _ => None,
                };
                let writing = chunk.write.value.all().into_iter().map(|write| match write {
                    WriteFile::Statement(file) => file.connection.as_ref(),
                    WriteFile::Sql(file) => file.connection.as_ref(),
                    _ => None,
                });
                reading.chain([dividing]).chain(writing).collect()
            }
            _ => Vec::new(),
        };
        for connection in named.into_iter().flatten() {
            if known.contains(&connection.value) {
                continue;
            }
            let fix = did_you_mean(&connection.value, known.iter().map(String::as_str), || {
                format!("add [connections.{}] with its url to the configuration", connection.value)
            });
            let what = format!("there is no connection {:?}", connection.value);
            let why = match known {
                [] => "the configuration names no connections".to_owned(),
                _ => format!("the configuration has {}", known.join(", ")),
            };
            self.wrong(connection, what, fix).why = Some(why);
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= PARAMETER_NAME_CHARS_MAX
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
