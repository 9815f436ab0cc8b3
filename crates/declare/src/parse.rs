//! Parses the tree of a file into the job that it declares, and reports all problems at once.

mod assert;
mod chunk;
mod endpoint;
mod fields;
mod file;
mod http;
mod parameter;
mod pool;
mod process;
mod step;
mod target;
mod test;
mod write;

use crate::document::{Content, Node};
use crate::fingerprint::fingerprint;
use crate::model::{At, JobFile, Place, ScheduleFile};
use crate::{Diagnostic, Source};
pub(crate) use fields::all;
use fields::{Fields, Reader, Table, Truth, tables};
use std::collections::BTreeMap;
use std::time::Duration;
pub(crate) use test::test;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::notify::NotifyOn;
use tidemill_domain::schedule::Schedule;

tables! {
    JOB = "a job" ["job" "description" "parameters" "restartable" "on_crash" "schedule" "notify" "steps"]
        "job: NAME, steps: and a list of steps";
    NOTIFY = "notify" ["on" "to"]
        "notify: { on: failed, to: ops }";
    RESTART = "on_crash" ["restart"]
        "on_crash: { restart: 3 }";
    SCHEDULE = "a schedule" ["cron" "zone" "windows" "outside" "missed" "overlap" "grace" "parameters"]
        "schedule: { cron: \"0 2 * * *\", zone: Asia/Seoul }";
}

/// Maximum lateness before a tick counts as missed.
const GRACE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// What could not be parsed, so that later checks do not report what only follows from that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gaps {
    /// Whether names of parameters may be missing.
    pub(crate) has_unknown_parameters: bool,
    /// Whether types or defaults of parameters may be wrong.
    pub(crate) has_bad_parameters: bool,
    /// The steps that could not be parsed; by name, if that could.
    pub(crate) steps: Vec<Option<String>>,
}

/// A job as far as it could be parsed. It is complete if there are no problems.
pub(crate) fn job(source: &Source, root: &Node) -> (Option<JobFile>, Gaps, Vec<Diagnostic>) {
    let mut reader = Reader { source, problems: Vec::new(), steps: 0, gaps: Gaps::default() };
    let file = reader.table(root, "a job file", JOB).and_then(|fields| read(&mut reader, &fields, root));
    (file, reader.gaps, reader.problems)
}

fn read(reader: &mut Reader<'_>, fields: &Fields<'_>, root: &Node) -> Option<JobFile> {
    let name = reader.required_text(fields, "job");
    let description = reader.text_of(fields, "description").map(|text| text.value);
    let before = reader.problems.len();
    let parameters = match fields.get("parameters") {
        Some(node) => reader.parameters(node),
        // An unknown key may be a misspelt `parameters`.
        None if fields.entries.iter().any(|(key, _)| !JOB.keys.contains(&key.name.as_str())) => None,
        None => Some(Vec::new()),
    };
    reader.gaps.has_unknown_parameters = parameters.is_none();
    reader.gaps.has_bad_parameters = parameters.is_none() || reader.problems.len() > before;
    let is_restartable = reader.truth_of(fields, "restartable", Truth::Yes);
    let on_crash = fields.get("on_crash").map_or(Some(OnCrash::Fail), |node| on_crash(reader, node));
    let schedule = match (fields.get("schedule"), &name) {
        (Some(node), Some(name)) => reader.schedule(node, &name.value),
        _ => None,
    };
    let notify = fields.get("notify").map_or(Some(Vec::new()), |node| reader.notify(node));
    let steps = reader.required(fields, "steps").and_then(|node| reader.steps(node, "steps"));
    if steps.is_none() {
        reader.gaps.steps.push(None);
    }
    Some(JobFile {
        path: reader.source.path().to_owned(),
        name: name?,
        description,
        parameters: parameters.unwrap_or_default(),
        is_restartable,
        on_crash: on_crash.unwrap_or(OnCrash::Fail),
        schedule,
        notify: notify.unwrap_or_default(),
        steps: steps.unwrap_or_default(),
        fingerprint: fingerprint(root),
        source: reader.source.clone(),
    })
}

/// `fail`, or `{ restart: LIMIT }`.
fn on_crash(reader: &mut Reader<'_>, node: &Node) -> Option<OnCrash> {
    if let Content::Map(_) = node.content {
        let fields = reader.table(node, "on_crash", RESTART)?;
        let limit = reader.required(&fields, "restart")?;
        return Some(OnCrash::Restart { limit: reader.number(limit, "restart", 1..=1000)? });
    }
    if matches!(&node.content, Content::Scalar(text) if text == "restart") {
        let what = "on_crash says that the job is restarted, and not how often";
        reader.wrong(node, what, "write on_crash: { restart: 3 }");
        return None;
    }
    reader.word(node, "on_crash", &[("fail", OnCrash::Fail)])
}

impl Reader<'_> {
    /// One table, or a list; each with one or several ends and channels.
    fn notify(&mut self, node: &Node) -> Option<Vec<(NotifyOn, At<String>)>> {
        let items = match &node.content {
            Content::List(items) if !items.is_empty() => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let words = NotifyOn::OF_JOBS.map(|on| (on.as_str(), on));
        let tables = all(items.iter().map(|item| {
            let fields = self.table(item, "notify", NOTIFY)?;
            let ends = self.required(&fields, "on").and_then(|node| {
                let items = self.items(node, "on")?;
                all(items.iter().map(|item| self.word(item, "on", &words)))
            });
            let channels = self.required(&fields, "to").and_then(|node| self.texts(node, "to"));
            let (ends, channels) = (ends?, channels?);
            let each = |on: &NotifyOn| channels.iter().map(|to| (*on, to.clone())).collect::<Vec<_>>();
            Some(ends.iter().flat_map(each).collect::<Vec<_>>())
        }));
        Some(tables?.concat())
    }

    /// Named after the job.
    fn schedule(&mut self, node: &Node, job: &str) -> Option<At<ScheduleFile>> {
        let fields = self.table(node, "schedule", SCHEDULE)?;
        let mut places = BTreeMap::new();
        let mut schedule = Schedule::new(job, job);
        let cron = self.required_text(&fields, "cron")?;
        schedule.cron = note(&mut places, "cron", cron);
        for (key, field) in [
            ("zone", &mut schedule.zone),
            ("outside", &mut schedule.outside),
            ("missed", &mut schedule.missed),
            ("overlap", &mut schedule.overlap),
        ] {
            if let Some(text) = self.text_of(&fields, key) {
                *field = note(&mut places, key, text);
            }
        }
        if let Some(node) = fields.get("windows") {
            for (index, window) in self.texts(node, "windows")?.into_iter().enumerate() {
                schedule.windows.push(note(&mut places, &format!("windows[{index}]"), window));
            }
        }
        if let Some(node) = fields.get("grace") {
            schedule.grace = self.duration(node, "grace", Duration::from_secs(1)..=GRACE_MAX)?;
        }
        if let Some(node) = fields.get("parameters") {
            places.insert("parameters".to_owned(), node.place);
            let example = "parameters: { date: \"${tick.date-1d}\" }";
            for (key, node) in self.named(node, "parameters is a table by name", example)? {
                let text = self.text(node, &key.name)?;
                let text = note(&mut places, &format!("parameters.{}", key.name), text);
                schedule.parameters.push((key.name.clone(), text));
            }
        }
        Some(At { value: ScheduleFile { schedule, places }, place: node.place })
    }
}

fn note(places: &mut BTreeMap<String, Place>, part: &str, text: At<String>) -> String {
    places.insert(part.to_owned(), text.place);
    text.value
}
