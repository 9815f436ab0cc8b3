//! The page of all jobs: the filter and the live table. All visitors get the same rows, so a row links to actions
//! instead of having buttons.

use super::state::{JobState, JobsView, health, letter, status_word};
use crate::api::QueryString;
use crate::api::job::with_registered;
use crate::dashboard::part::{
    Health, command, encoded, first_line, or_soft, panel, plural, state as state_word, table, took, value_or,
};
use crate::dashboard::{
    Audience, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Row, Section, Times,
};
use crate::state::State;
use maud::{Markup, html};
use std::collections::HashMap;
use std::time::Duration;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::job::track::{Outcomes, median};
use tidemill_domain::schedule::possible;
use tidemill_domain::time::Timestamp;
use tidemill_engine::job::InvalidJobFile;
use tidemill_store::job::{JobRecord, RunRecord};
use tidemill_store::schedule::ScheduleRecord;
use tidemill_store::{StoreError, Tx};

const JOBS_MAX: u32 = 5000;
pub(super) const SCHEDULES_MAX: u32 = 5000;
/// Maximum number of rows.
const SHOWN: usize = 100;
/// Period of the success rate.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

const COLUMNS: &[&str] = &[
    "Last execution",
    "Job",
    "Last 20, newest on the right",
    "#Median duration",
    "#Last duration",
    "#Success, 7 days",
    "Next run",
    "Action",
];

#[derive(Debug)]
struct Job {
    record: JobRecord,
    /// Whether this server can launch the job.
    is_registered: bool,
    runs: Vec<RunRecord>,
    outcomes: Outcomes,
    schedules: Vec<ScheduleRecord>,
}

pub(crate) async fn jobs(visit: PageContext, QueryString(view): QueryString<JobsView>) -> PageResult {
    let view = view.normalized();
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let jobs = Jobs::read(&visit.state, &mut tx, &view, common.now).await?;
    let list = jobs.region(&visit.state, &visit.times(common.now));
    let aside = html! {
        span.soft { "Failed jobs come first." }
        " "
        a href=(visit.state.path("/executions")) { "All executions" }
    };
    let content = html! {
        h1 { "Jobs" }
        (filter(&visit, &view))
        (panel("jobs", "All jobs", &aside, &table("Jobs", COLUMNS, &list.markup())))
    };
    Ok(Frame::new(&visit, &common, Section::Jobs).live(Page::Jobs(view)).render(&content))
}

fn filter(visit: &PageContext, view: &JobsView) -> Markup {
    let address = visit.state.path("/jobs");
    html! {
        form.filter method="get" action=(address) role="search" {
            label { "Name" input name="text" type="search" value=(view.text()) maxlength="100" autocomplete="off"; }
            label {
                "Last execution"
                select name="status" {
                    option value="" { "any" }
                    @for state in JobState::ALL {
                        option value=(state.as_str()) selected[view.state() == Some(state)] {
                            (state.label())
                        }
                    }
                }
            }
            button.do { "Show" }
            @if !view.is_everything() { a href=(address) { "All" } }
        }
    }
}

/// The jobs that the filter includes.
#[derive(Debug)]
pub(crate) struct Jobs {
    view: JobsView,
    rows: Vec<Job>,
    /// Job files that were not loaded. The filter does not hide them.
    invalid: Vec<InvalidJobFile>,
    /// Number of jobs that the filter includes; there can be fewer rows.
    found: usize,
    /// Whether there is any job at all.
    is_any: bool,
    /// Whether there are more than [`JOBS_MAX`].
    is_cut: bool,
}

impl Jobs {
    pub(crate) async fn read(
        state: &State,
        tx: &mut Tx,
        view: &JobsView,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let known = tx.jobs().latest_executions(JOBS_MAX).await?;
        let is_cut = known.len() >= JOBS_MAX as usize;
        let jobs = state.launcher().jobs();
        let mut all = with_registered(known, &jobs);
        let is_any = !all.is_empty();
        let state_of = |record: &JobRecord| JobState::of(record.last.map(|last| last.status));
        all.retain(|(record, _)| view.includes(&record.name, state_of(record)));
        // The sort is stable, so jobs in the same state stay sorted by name.
        all.sort_by_key(|(record, _)| state_of(record));
        let found = all.len();
        all.truncate(SHOWN);
        let names: Vec<&str> = all.iter().map(|(record, _)| record.name.as_str()).collect();
        let mut runs = tx.jobs().recent_runs(&names, CELLS).await?;
        let outcomes = tx.jobs().outcomes(&names, now.minus(WEEK)).await?;
        let mut schedules: HashMap<String, Vec<ScheduleRecord>> = HashMap::new();
        for record in tx.schedules().list(SCHEDULES_MAX).await? {
            schedules.entry(record.schedule.job.clone()).or_default().push(record);
        }
        let job = |(record, is_registered): (JobRecord, bool)| Job {
            is_registered,
            runs: runs.remove(&record.name).unwrap_or_default(),
            outcomes: outcomes.get(&record.name).copied().unwrap_or_default(),
            schedules: schedules.remove(&record.name).unwrap_or_default(),
            record,
        };
        let rows = all.into_iter().map(job).collect();
        let invalid = jobs.invalid().to_vec();
        Ok(Self { view: view.clone(), rows, invalid, found, is_any, is_cut })
    }

    pub(crate) fn region(&self, state: &State, times: &Times) -> Region {
        let invalid = self.invalid.iter().map(file_row);
        let rows = invalid.chain(self.rows.iter().map(|job| row(job, state, times)));
        let shown = self.rows.len();
        let found = (self.found > shown).then(|| {
            html! { "The first " (shown) " of " (self.found) ". Use the filter to find the others." }
        });
        let cut = self.is_cut.then(|| html! { "Only the first " (JOBS_MAX) " jobs by name are listed." });
        let audience = Audience::At(Page::Jobs(self.view.clone()));
        Region::rows("jobs", audience, COLUMNS, rows, &self.nothing(state), found.into_iter().chain(cut))
    }

    fn nothing(&self, state: &State) -> Markup {
        html! {
            @if self.is_any {
                "No matching jobs. " a href=(state.path("/jobs")) { "Show all" }
            } @else {
                "No jobs yet. Run a job file: " (command("tidemill job run FILE.yaml"))
                " or start the server with a folder of job files: " (command("tidemill serve --jobs FOLDER"))
            }
        }
    }
}

pub(crate) fn address(state: &State, job: &str) -> String {
    state.path(&format!("/jobs/{}", encoded(job)))
}

/// A job file that was not loaded, with its mistakes.
fn file_row(file: &InvalidJobFile) -> Row {
    let cells = html! {
        td { (state_word(Health::Bad, "not loaded")) }
        th.long scope="row" colspan=(COLUMNS.len() - 1) {
            "Job file " (file.path)
            @for problem in &file.problems { div.fault.brief { (problem) } }
            div.soft { "Correct the file. It is loaded again within seconds." }
        }
    };
    Row::of(format!("file:{}", file.path), &cells)
}

fn row(job: &Job, state: &State, times: &Times) -> Row {
    let JobRecord { name, last, .. } = &job.record;
    let address = address(state, name);
    let newest = job.runs.first();
    let fault = newest.map_or("", |run| first_line(&run.message));
    let took_last = newest.and_then(RunRecord::length).map(took);
    let unknown = if newest.is_some_and(|run| run.status.is_running()) { "running" } else { "–" };
    let cells = html! {
        td {
            @match last {
                Some(last) => {
                    a.plain href=(state.path(&format!("/executions/{}", last.id))) { (status_word(last.status)) }
                    br;
                    span.soft { (times.at(last.created_at)) }
                }
                None => span.soft { "never ran" },
            }
        }
        th.long scope="row" {
            a href=(address) { (name) }
            @if !job.is_registered { " " span.soft { "(not on this server)" } }
            @if !fault.is_empty() { div.fault.brief { (fault) } }
        }
        td { (strip(&job.runs)) }
        td.number { (value_or(median(job.runs.iter().filter_map(RunRecord::length)).map(took), "–")) }
        td.number { (value_or(took_last, unknown)) }
        td.number { (success(job.outcomes)) }
        td { (next_run(job, times)) }
        td {
            a.button href={ (address) "#run" } aria-label={ "Run " (name) } { "Run…" }
            @if let Some(schedule) = job.schedules.first() {
                " "
                a.button href={ (address) "#schedules" } {
                    (possible(schedule.pause.is_some()).label()) "…"
                    span.unseen { " the schedule of " (name) }
                }
            }
        }
    };
    Row::of(format!("job:{name}"), &cells)
}

fn success(outcomes: Outcomes) -> Markup {
    let title = format!("{} of {} completed", outcomes.completed, outcomes.total());
    or_soft(outcomes.percent().map(|percent| html! { span title=(title) { (percent) " %" } }), "–")
}

/// The next run by a schedule, or `paused`.
fn next_run(job: &Job, times: &Times) -> Markup {
    let next =
        job.schedules.iter().filter(|record| record.pause.is_none()).filter_map(|record| record.next_at);
    let is_paused = job.schedules.iter().any(|record| record.pause.is_some());
    match next.min() {
        None if is_paused => html! { "paused" },
        next => times.maybe(next, "no schedule"),
    }
}

const CELLS: u32 = 20;

/// The last executions as cells, the oldest first; `runs` has the newest first.
fn strip(runs: &[RunRecord]) -> Markup {
    html! {
        @if runs.is_empty() {
            span.soft { "none" }
        } @else {
            span.strip role="img" aria-label=(summary(runs)) {
                @for run in runs.iter().rev() {
                    span.cell.(health(run.status)) title=(about(run)) { (letter(run.status)) }
                }
            }
        }
    }
}

/// The strip in words, for screen readers.
fn summary(runs: &[RunRecord]) -> String {
    let counted = BatchStatus::ALL.into_iter().filter_map(|status| {
        let count = runs.iter().filter(|run| run.status == status).count();
        (count > 0).then(|| format!("{count} {status}"))
    });
    let parts: Vec<String> = counted.collect();
    format!("The last {}: {}", plural(runs.len(), "execution", "executions"), parts.join(", "))
}

fn about(run: &RunRecord) -> String {
    let length = run.length().map(|length| format!(", took {}", took(length))).unwrap_or_default();
    format!("#{} {}, {}{length}", run.id, run.status, run.created_at)
}
