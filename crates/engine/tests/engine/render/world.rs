//! A world without After Effects: a farm, an inspector and a shelf that do what the test says and keep what was asked.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::check::{Decoded, Video};
use tidemill_domain::render::output::{Output, staged_for};
use tidemill_domain::render::{Failure, LocalPath, Phase, Probe, Profile, Report, Trouble, Uid};
use tidemill_engine::render::storage::{Content, MayGoOn, Sight};
use tidemill_engine::render::{Asking, Backends, Farm, Inspector, Storage};
use tokio::sync::Notify;

/// What the farm does with a job that it gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Node {
    /// It renders at once, and leaves a file.
    #[default]
    Fast,
    /// Nobody takes it.
    Absent,
    /// It renders until the test says something else.
    Slow,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) node: Node,
    pub(super) jobs: BTreeMap<String, Report>,
    /// Grows with each change, as times of a farm do.
    pub(super) changes: u64,
    /// Where jobs leave their files, of those that say so.
    pub(super) outputs: BTreeMap<String, String>,
    pub(super) submitted: Vec<Uid>,
    pub(super) documents: Vec<Value>,
    pub(super) removed: Vec<String>,
    pub(super) running_most: usize,
    /// The next call of this name fails like this.
    breaks_once: Option<(&'static str, Failure)>,
    /// What is wrong, by the name of the call.
    pub(super) troubles: BTreeMap<&'static str, Trouble>,
    pub(super) staged: BTreeMap<String, Vec<u8>>,
    pub(super) parts: BTreeMap<String, Vec<u8>>,
    pub(super) finals: BTreeMap<String, Vec<u8>>,
    /// In object stores, by URL.
    pub(super) objects: BTreeMap<String, Vec<u8>>,
    pub(super) calls: BTreeMap<&'static str, usize>,
    /// Calls about jobs whose names begin like this fail like this.
    pub(super) poison: Option<(&'static str, Failure)>,
    /// So many look-ups find no job, whatever is there.
    pub(super) blips: usize,
    pub(super) posters: BTreeSet<String>,
    pub(super) is_broken: bool,
    /// Calls that do not end until the test opens them.
    closed: BTreeMap<&'static str, Arc<Notify>>,
}

/// The world. All clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    /// Whoever copies stops with all that it does, until the test lets it go on.
    frozen: Option<Arc<(Mutex<bool>, Condvar)>>,
}

fn staging(uid: &str) -> String {
    format!("/staging/{uid}.mp4")
}

impl Fake {
    pub(super) fn backends(&self) -> Backends {
        Backends {
            farm: Arc::new(self.clone()),
            inspector: Arc::new(self.clone()),
            storage: Arc::new(self.clone()),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The same world for somebody who freezes when it copies.
    pub(super) fn freezing(&self) -> Self {
        Self { frozen: Some(Arc::default()), ..self.clone() }
    }

    pub(super) fn thaw(&self) {
        let frozen = self.frozen.as_ref().unwrap();
        *frozen.0.lock().unwrap() = true;
        frozen.1.notify_all();
    }

    pub(super) fn set_node(&self, node: Node) {
        self.state().node = node;
    }

    pub(super) fn breaks(&self, call: &'static str, failure: Failure) {
        self.state().troubles.insert(call, Trouble::new(failure, "as the test wants it"));
    }

    pub(super) fn breaks_once(&self, call: &'static str, failure: Failure) {
        self.state().breaks_once = Some((call, failure));
    }

    pub(super) fn mend(&self) {
        self.state().troubles.clear();
    }

    fn poison_of(&self, job: &str) -> Result<(), Trouble> {
        match self.state().poison {
            Some((start, failure)) if job.starts_with(start) => Err(Trouble::new(failure, "poison")),
            _ => Ok(()),
        }
    }

    /// From now on this call does not end.
    pub(super) fn close(&self, call: &'static str) {
        self.state().closed.insert(call, Arc::default());
    }

    pub(super) fn open(&self, call: &'static str) {
        if let Some(gate) = self.state().closed.remove(call) {
            gate.notify_waiters();
        }
    }

    pub(super) fn calls(&self, call: &'static str) -> usize {
        self.state().calls.get(call).copied().unwrap_or_default()
    }

    pub(super) fn submits(&self) -> usize {
        self.state().submitted.len()
    }

    /// The farm says this about a job from now on.
    pub(super) fn says(&self, job: &str, report: Report) {
        let mut state = self.state();
        state.jobs.insert(job.to_owned(), report);
        state.changes += 1;
    }

    /// The node is done.
    pub(super) fn finish(&self, job: &str) {
        self.state().staged.insert(staging(job), job.as_bytes().to_vec());
        self.says(job, Report::Finished);
    }

    /// Counts a call, waits if it is closed, and says what is wrong with it.
    async fn call(&self, call: &'static str) -> Result<(), Trouble> {
        let gate = {
            let mut state = self.state();
            *state.calls.entry(call).or_default() += 1;
            state.closed.get(call).cloned()
        };
        if let Some(gate) = gate {
            gate.notified().await;
        }
        let mut state = self.state();
        match state.breaks_once.take_if(|(broken, _)| *broken == call) {
            Some((_, failure)) => Err(Trouble::new(failure, "once")),
            None => state.troubles.get(call).cloned().map_or(Ok(()), Err),
        }
    }
}

fn running(percent: f64) -> Report {
    Report::At { phase: Phase::Rendering, percent: Some(percent) }
}

impl Farm for Fake {
    fn name(&self) -> String {
        "fake".to_owned()
    }

    fn check(&self) -> Asking<'_, ()> {
        Box::pin(self.call("farm_check"))
    }

    fn look<'a>(&'a self, job: &'a str) -> Asking<'a, Option<RemoteJob>> {
        Box::pin(async move {
            self.call("look").await?;
            self.poison_of(job)?;
            let mut state = self.state();
            if state.blips > 0 {
                state.blips -= 1;
                return Ok(None);
            }
            let updated = Some(state.changes.to_string());
            Ok(state.jobs.get(job).map(|report| RemoteJob {
                id: job.to_owned(),
                report: report.clone(),
                updated,
                output: state.outputs.get(job).cloned(),
            }))
        })
    }

    fn submit<'a>(&'a self, uid: Uid, document: &'a Value) -> Asking<'a, RemoteJob> {
        Box::pin(async move {
            self.call("submit").await?;
            let name = uid.to_string();
            self.poison_of(&name)?;
            let node = {
                let mut state = self.state();
                assert!(!state.submitted.contains(&uid), "{name} was submitted before");
                state.submitted.push(uid);
                state.documents.push(document.clone());
                state.node
            };
            match node {
                Node::Fast => self.finish(&name),
                Node::Absent => self.says(&name, Report::At { phase: Phase::WaitingForNode, percent: None }),
                Node::Slow => self.says(&name, running(10.0)),
            }
            let mut state = self.state();
            let at_node = |report: &&Report| matches!(report, Report::At { phase: Phase::Rendering, .. });
            state.running_most = state.running_most.max(state.jobs.values().filter(at_node).count());
            let report = Report::At { phase: Phase::WaitingForNode, percent: None };
            Ok(RemoteJob { id: name, report, updated: None, output: None })
        })
    }

    fn remove<'a>(&'a self, job: &'a str) -> Asking<'a, ()> {
        Box::pin(async move {
            self.call("remove").await?;
            self.poison_of(job)?;
            let mut state = self.state();
            state.jobs.remove(job);
            state.removed.push(job.to_owned());
            Ok(())
        })
    }
}

impl Inspector for Fake {
    fn check(&self) -> Asking<'_, ()> {
        Box::pin(self.call("inspector_check"))
    }

    fn inspect<'a>(&'a self, file: &'a LocalPath, profile: &'a Profile) -> Asking<'a, Probe> {
        Box::pin(async move {
            self.call("inspect").await?;
            let state = self.state();
            let bytes = state.staged.get(&file.to_string()).map(Vec::len).unwrap_or_default();
            let decoded = if state.is_broken {
                Decoded::Broken("a hole in the middle".to_owned())
            } else {
                Decoded::Whole
            };
            let video = Video {
                codec: "h264".into(),
                pixel_format: Some("yuv420p".into()),
                width: profile.width,
                height: profile.height,
                base_rate: Some(profile.rate),
                average_rate: Some(profile.rate),
                frames: Some(60),
                packets: Some(60),
                seconds: Some(2.0),
                ..Video::default()
            };
            Ok(Probe {
                bytes: bytes as u64,
                format: "mov,mp4".into(),
                videos: vec![video],
                decoded: Some(decoded),
                ..Probe::default()
            })
        })
    }

    fn poster<'a>(&'a self, _file: &'a LocalPath, picture: &'a LocalPath) -> Asking<'a, ()> {
        Box::pin(async move {
            self.call("poster").await?;
            self.state().posters.insert(picture.to_string());
            Ok(())
        })
    }
}

fn content(bytes: &[u8]) -> Content {
    Content { bytes: bytes.len() as u64, sha256: format!("sha of {}", String::from_utf8_lossy(bytes)) }
}

fn place(folder: &str, name: &str) -> String {
    format!("{folder}/{name}")
}

impl Storage for Fake {
    fn check(&self) -> Asking<'_, ()> {
        Box::pin(self.call("shelf_check"))
    }

    fn settled<'a>(&'a self, staged: &'a LocalPath, _quiet: Duration) -> Asking<'a, Option<Sight>> {
        Box::pin(async move {
            self.call("settled").await?;
            let sight = |bytes: &Vec<u8>| Sight {
                bytes: bytes.len() as u64,
                // Whoever writes something else does so at another time.
                touched: (0, bytes.iter().map(|byte| i64::from(*byte)).sum()),
            };
            Ok(self.state().staged.get(&staged.to_string()).map(sight))
        })
    }

    fn content<'a>(&'a self, staged: &'a LocalPath) -> Asking<'a, Option<Content>> {
        Box::pin(async move {
            self.call("content").await?;
            Ok(self.state().staged.get(&staged.to_string()).map(|bytes| content(bytes)))
        })
    }

    fn copy<'a>(&'a self, staged: &'a LocalPath, output: &'a Output) -> Asking<'a, Content> {
        Box::pin(async move {
            self.call("copy").await?;
            if let Some(frozen) = &self.frozen {
                let thawed = frozen.0.lock().unwrap();
                drop(frozen.1.wait_while(thawed, |thawed| !*thawed).unwrap());
            }
            let mut state = self.state();
            let bytes = state.staged.get(&staged.to_string()).cloned();
            let bytes = bytes.ok_or_else(|| Trouble::new(Failure::OutputInvalid, "nothing to copy"))?;
            let copied = content(&bytes);
            state.parts.insert(place(&output.folder, &output.part), bytes);
            Ok(copied)
        })
    }

    fn publish<'a>(&'a self, output: &'a Output, content: &'a Content) -> Asking<'a, LocalPath> {
        Box::pin(async move {
            self.call("publish").await?;
            let mut state = self.state();
            let name = place(&output.folder, &output.name);
            if let Some(bytes) = state.parts.remove(&place(&output.folder, &output.part)) {
                assert_eq!(self::content(&bytes), *content);
                assert!(state.finals.insert(name.clone(), bytes).is_none(), "{name} is published twice");
            }
            Ok(LocalPath::parse(&format!("/nas/{name}")).unwrap())
        })
    }

    fn published<'a>(&'a self, output: &'a Output) -> Asking<'a, Option<Content>> {
        Box::pin(async move {
            self.call("published").await?;
            Ok(self.state().finals.get(&place(&output.folder, &output.name)).map(|bytes| content(bytes)))
        })
    }

    fn upload<'a>(
        &'a self,
        output: &'a Output,
        url: &'a str,
        content: &'a Content,
        may_go_on: MayGoOn,
    ) -> Asking<'a, ()> {
        Box::pin(async move {
            self.call("upload").await?;
            assert!(may_go_on());
            let mut state = self.state();
            assert!(!state.finals.contains_key(&place(&output.folder, &output.name)), "the NAS was first");
            let part = state.parts.get(&place(&output.folder, &output.part)).cloned();
            let bytes = part.ok_or_else(|| Trouble::new(Failure::NasFailed, "the part is gone"))?;
            assert_eq!(self::content(&bytes), *content);
            let before = state.objects.insert(url.to_owned(), bytes.clone());
            assert!(before.is_none_or(|before| before == bytes), "{url} is replaced");
            Ok(())
        })
    }

    fn object<'a>(&'a self, url: &'a str) -> Asking<'a, Option<Content>> {
        Box::pin(async move {
            self.call("object").await?;
            Ok(self.state().objects.get(url).map(|bytes| content(bytes)))
        })
    }

    fn discard_object<'a>(&'a self, url: &'a str) -> Asking<'a, ()> {
        Box::pin(async move {
            self.call("discard_object").await?;
            self.state().objects.remove(url);
            Ok(())
        })
    }

    fn discard<'a>(&'a self, staged: &'a LocalPath) -> Asking<'a, ()> {
        Box::pin(async move {
            self.call("discard").await?;
            self.state().staged.remove(&staged.to_string());
            Ok(())
        })
    }

    fn discard_part<'a>(&'a self, output: &'a Output) -> Asking<'a, ()> {
        Box::pin(async move {
            self.call("discard_part").await?;
            self.state().parts.remove(&place(&output.folder, &output.part));
            Ok(())
        })
    }

    fn left(&self, _age: Duration) -> Asking<'_, Vec<(Uid, LocalPath)>> {
        Box::pin(async move {
            self.call("left").await?;
            let of = |path: &String| {
                let name = path.rsplit('/').next().unwrap();
                (staged_for(name).unwrap(), LocalPath::parse(path).unwrap())
            };
            Ok(self.state().staged.keys().map(of).collect())
        })
    }

    fn sweep(&self, _age: Duration) -> Asking<'_, u64> {
        Box::pin(async move {
            self.call("sweep").await?;
            Ok(0)
        })
    }
}
