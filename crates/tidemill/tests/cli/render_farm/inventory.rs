//! What there is in the end, compared without anything of the product: rows, files, the audit, the attempts, what the farm
//! was given and what it has rendered.

use super::site::{Site, State, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_store::sqlx;

/// From which status a render may come to which. Nothing leads out of an end.
const LEGAL: [(&str, &[&str]); 5] = [
    ("pending", &["preparing", "rendering", "encoding", "uploading", "failed", "cancelled"]),
    ("preparing", &["rendering", "encoding", "uploading", "pending", "failed", "cancelled"]),
    ("rendering", &["preparing", "encoding", "uploading", "pending", "failed", "cancelled"]),
    ("encoding", &["preparing", "rendering", "uploading", "pending", "failed", "cancelled"]),
    ("uploading", &["preparing", "completed", "pending", "failed", "cancelled"]),
];

/// Where to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    /// The folder of published files, as rows have it.
    pub(super) shown: &'a Path,
    /// The same, as it is found here.
    pub(super) found: &'a Path,
    /// One that somebody has tried again after it had failed.
    pub(super) retried: Option<i64>,
}

/// What there is of some renders.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) states: BTreeMap<i64, State>,
    /// How the attempts of each ended, in order.
    pub(super) outcomes: BTreeMap<i64, Vec<String>>,
    /// All that is wrong.
    pub(super) faults: Vec<String>,
}

/// From which status to which, and whether somebody says to have done it.
type Transition = (Option<String>, String, bool);

/// The epoch of a claim, how it ended, and its job.
type Attempt = (i64, Option<String>, Option<String>);

impl Inventory {
    /// Looks at renders that have ended.
    pub(super) async fn take(site: &Site, ids: &[i64], look: Look<'_>) -> Self {
        let mut inventory = Self::default();
        for id in ids {
            let state = site.state(*id).await;
            inventory.look_at_row(&state);
            inventory.look_at_audit(&state, site, look).await;
            inventory.look_at_attempts(&state, site, look).await;
            inventory.states.insert(*id, state);
        }
        inventory.look_at_files(site, look);
        inventory
    }

    /// The statuses in the order of the numbers.
    pub(super) fn statuses(&self) -> Vec<&str> {
        self.states.values().map(|state| state.status.as_str()).collect()
    }

    fn fault(&mut self, state: &State, what: &str) {
        self.faults.push(format!("render {}: {what}", state.id));
    }

    fn look_at_row(&mut self, state: &State) {
        if !state.has_ended() {
            self.fault(state, "it has not ended");
        }
        if state.is_held {
            self.fault(state, "it has ended and somebody has it");
        }
        let has_file = state.output_file_path.is_some();
        if (state.status == "completed") != has_file {
            self.fault(state, "who is completed has a file, and nobody else");
        }
        if state.status == "failed" && (state.error_code.is_none() || state.error_message.is_none()) {
            self.fault(state, "it has failed without a reason");
        }
    }

    async fn look_at_audit(&mut self, state: &State, site: &Site, look: Look<'_>) {
        let mut tx = site.store.read().await.unwrap();
        let select = "select status_from, status_to, coalesce(changed_by, '') <> ''
             from render_queue_audit
             where render_queue_id = $1
             order by id";
        let select = sqlx::query_as::<_, Transition>(select).bind(state.id);
        let transitions = select.fetch_all(tx.postgres().unwrap()).await.unwrap();
        tx.rollback().await.unwrap();
        let mut at = None;
        for transition in &transitions {
            let (from, to, is_by_somebody) = transition;
            let is_legal = match from.as_deref() {
                None => to == "pending",
                Some("failed") => to == "pending" && look.retried == Some(state.id),
                Some(from) => LEGAL.iter().any(|(legal, next)| *legal == from && next.contains(&to.as_str())),
            };
            if *from != at || !is_legal || !is_by_somebody {
                self.fault(state, &format!("the audit goes wrong at {transition:?} of {transitions:?}"));
            }
            at = Some(to.clone());
        }
        if at.as_ref() != Some(&state.status) {
            self.fault(state, &format!("the audit ends elsewhere: {transitions:?}"));
        }
    }

    async fn look_at_attempts(&mut self, state: &State, site: &Site, look: Look<'_>) {
        let mut tx = site.store.read().await.unwrap();
        let select =
            "select epoch, outcome, nexrender_job_id from render_attempt where render_id = $1 order by epoch";
        let select = sqlx::query_as::<_, Attempt>(select).bind(state.id);
        let attempts = select.fetch_all(tx.postgres().unwrap()).await.unwrap();
        tx.rollback().await.unwrap();
        if !attempts.iter().map(|(epoch, ..)| *epoch).eq(1..=state.epoch) {
            self.fault(state, &format!("not each claim is an attempt: {attempts:?}"));
        }
        let outcomes: Vec<String> =
            attempts.iter().map(|(_, outcome, _)| outcome.clone().unwrap_or_default()).collect();
        let ends = outcomes.iter().filter(|outcome| ["completed", "failed"].contains(&outcome.as_str()));
        // The failure before somebody has tried it again is no end.
        let ends: Vec<&String> = ends.skip(usize::from(look.retried == Some(state.id))).collect();
        let is_told = match state.status.as_str() {
            "cancelled" => ends.is_empty(),
            // What nobody could claim has no attempt.
            status => ends.iter().all(|end| *end == status) && ends.len() <= 1,
        };
        if !is_told || outcomes.iter().any(String::is_empty) {
            self.fault(state, &format!("its attempts end otherwise: {attempts:?}"));
        }
        let known: BTreeSet<&String> = attempts.iter().filter_map(|(.., job)| job.as_ref()).collect();
        for jobs in [site.posted(state.id), site.renders(state.id)] {
            let distinct: BTreeSet<&String> = jobs.iter().collect();
            if distinct.len() != jobs.len() {
                self.fault(state, &format!("a job was given or rendered twice: {jobs:?}"));
            }
            if !distinct.is_subset(&known) {
                self.fault(state, &format!("{jobs:?} are not all of {known:?}"));
            }
        }
        if site.jobs().contains(&format!("\"rq-{}-", state.id)) {
            self.fault(state, "nexrender still has a job of it");
        }
        self.outcomes.insert(state.id, outcomes);
    }

    /// One file for each that is completed, and no others.
    fn look_at_files(&mut self, site: &Site, look: Look<'_>) {
        let mut found: BTreeSet<PathBuf> = files(look.found);
        for state in self.states.clone().values() {
            let Some(path) = state.output_file_path.as_ref().map(Path::new) else { continue };
            let path = look.found.join(path.strip_prefix(look.shown).unwrap_or(path));
            if !found.remove(&path) {
                self.fault(state, &format!("there is no file {}", path.display()));
                continue;
            }
            if Some(sha256(&path)) != state.output_sha256 {
                self.fault(state, "its file is not the one that was checked");
            }
            if Some(fs::metadata(&path).unwrap().len().cast_signed()) != state.output_bytes {
                self.fault(state, "its file has another size");
            }
            if let Some(complaint) = complaint(&path, &format!("rq-{}-", state.id)) {
                self.fault(state, &format!("its file cannot be played: {complaint}"));
            }
        }
        found.append(&mut files(&site.nas.join(".staging")));
        if !found.is_empty() {
            self.faults.push(format!("files that nobody needs: {found:?}"));
        }
    }
}

/// All files below a folder.
pub(super) fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    found
}

pub(super) fn sha256(path: &Path) -> String {
    let ran = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(ran.stdout).unwrap().split_whitespace().next().unwrap_or_default().to_owned()
}

/// What ffprobe says against a film of the size and length that was asked for, by a job of this render.
fn complaint(path: &Path, job: &str) -> Option<String> {
    let file = format!("file:{}", text(path));
    // Counting frames decodes all of them.
    let shown = "stream=codec_name,width,height,nb_read_frames:format_tags=comment";
    let probe = ["-v", "error", "-count_frames", "-show_entries", shown, "-of", "csv=p=0", &file];
    let probed = Command::new("ffprobe").args(probe).output().unwrap();
    let said = String::from_utf8(probed.stdout).unwrap();
    let films = said.lines().filter(|line| line.starts_with("h264,320,180,10"));
    let is_its_own = said.lines().any(|line| line.starts_with(job));
    let is_good = is_its_own && films.count() == 1 && probed.status.success() && probed.stderr.is_empty();
    (!is_good).then(|| format!("{said} {}", String::from_utf8_lossy(&probed.stderr)))
}
