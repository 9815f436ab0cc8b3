//! What every handler works with.

use crate::access::limit::Limits;
use crate::access::{Authentication, session::CookieName};
use crate::action::ExtraAction;
use crate::api::pool::emr_agent::EmrAgentOptions;
use crate::lambda::LambdaOptions;
use crate::live::Live;
use crate::server::{CHANGES_MAX, REQUEST_TIMEOUT};
use metrics_exporter_prometheus::PrometheusHandle;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tidemill_domain::alert::Rule;
use tidemill_domain::render::{LocalPath, Policy};
use tidemill_domain::time::{Clock, Monotonic, Timestamp};
use tidemill_engine::Process;
use tidemill_engine::job::Launcher;
use tidemill_engine::pool::Pools;
use tidemill_engine::render::WorkerHandle;
use tidemill_store::{Store, StoreError, Tx};
use tokio::sync::{Semaphore, watch};

/// What the program hands to its server.
#[derive(Clone, Debug)]
pub struct Parts {
    pub store: Store,
    pub process: Process,
    /// Starts jobs in this process.
    pub launcher: Launcher,
    /// Decides about pools in this process.
    pub pools: Pools,
    /// What is known of renders in this process.
    pub render: RenderPart,
    /// What this program lets people do beyond what every server can; usually nothing.
    pub action: Option<Arc<dyn ExtraAction>>,
    /// The rules of alerts that are in force.
    pub rules: Vec<Rule>,
    /// The clocks of this host.
    pub clock: Arc<dyn Clock>,
    /// What was counted; none when nobody counts.
    pub metrics: Option<PrometheusHandle>,
    /// The configuration in force, secrets masked.
    pub configuration: Vec<ConfigLine>,
    pub version: String,
}

/// What a server knows of renders.
#[derive(Clone, Debug)]
pub struct RenderPart {
    /// What is tried again, and when.
    pub policy: Policy,
    /// The worker of this process, if it has one.
    pub worker: Option<WorkerHandle>,
    /// Where pictures out of files are, as this host sees it; none when nobody has said.
    pub posters: Option<LocalPath>,
}

/// One line of the configuration, as it may be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigLine {
    pub key: String,
    /// Its value, masked if it is secret.
    pub value: String,
    pub origin: String,
}

/// What every handler works with. Cheap to clone.
#[derive(Clone, Debug)]
pub struct State {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) parts: Parts,
    /// What stands before every path, without a slash at its end; empty for none.
    pub(crate) base_path: String,
    /// What this installation is called in the header of every page.
    pub(crate) instance: String,
    pub(crate) authentication: Authentication,
    pub(crate) cookie: CookieName,
    pub(crate) limits: Limits,
    pub(crate) live: Live,
    pub(crate) started: Monotonic,
    pub(crate) started_at: Timestamp,
    pub(crate) is_draining: AtomicBool,
    /// Becomes true when requests that wait are to come to their end.
    pub(crate) stopping: watch::Sender<bool>,
    /// A permit for each change that is under way, so that they can be bounded and waited for.
    pub(crate) changes: Arc<Semaphore>,
    pub(crate) emr_agent: EmrAgentOptions,
    pub(crate) lambda: LambdaOptions,
}

impl State {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Where changes are published as they happen.
    pub fn live(&self) -> &Live {
        &self.inner.live
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.parts.store
    }

    /// Begins to read for a request: for no longer than somebody waits for its answer.
    #[crate::boxed]
    pub(crate) async fn read(&self) -> Result<Tx, StoreError> {
        self.store().read_within(REQUEST_TIMEOUT).await
    }

    /// What has to stand behind a command about jobs, where the program at the command line would not know them: the folder
    /// that only a flag of this server names.
    pub(crate) fn jobs_flag(&self) -> String {
        let mut lines = self.inner.parts.configuration.iter();
        match lines.find(|line| line.key == "jobs.folder" && line.origin.ends_with("--jobs")) {
            Some(line) => format!(" --jobs '{}'", line.value.replace('\'', r"'\''")),
            None => String::new(),
        }
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.inner.parts.launcher
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.inner.parts.pools
    }

    pub(crate) fn action(&self) -> Option<&Arc<dyn ExtraAction>> {
        self.inner.parts.action.as_ref()
    }

    /// Done when the server is about to end.
    pub(crate) async fn stopping(&self) {
        // It is never dropped while somebody can wait here.
        drop(self.inner.stopping.subscribe().wait_for(|is_stopping| *is_stopping).await);
    }

    /// How many changes are under way, those included whose callers have hung up.
    pub fn changes_under_way(&self) -> usize {
        CHANGES_MAX as usize - self.inner.changes.available_permits()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// A path of ours as a browser has to ask for it.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.inner.base_path)
    }
}
