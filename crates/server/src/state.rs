//! The state that all handlers share.

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
use tidemill_domain::render::{LocalPath, Policy, Targets};
use tidemill_domain::schedule::Zone;
use tidemill_domain::time::{Clock, Monotonic, Timestamp};
use tidemill_engine::Process;
use tidemill_engine::job::Launcher;
use tidemill_engine::pool::Pools;
use tidemill_engine::render::Worker;
use tidemill_store::{Store, StoreError, Tx};
use tokio::sync::{Semaphore, watch};

/// What the program passes to its server.
#[derive(Clone, Debug)]
pub struct Parts {
    pub store: Store,
    pub process: Process,
    pub launcher: Launcher,
    pub pools: Pools,
    pub render: RenderPart,
    pub action: Option<Arc<dyn ExtraAction>>,
    pub rules: Vec<Rule>,
    pub clock: Arc<dyn Clock>,
    /// None if the program records no metrics.
    pub metrics: Option<PrometheusHandle>,
    pub configuration: Vec<ConfigLine>,
    pub version: String,
}

#[derive(Clone, Debug)]
pub struct RenderPart {
    /// The retry rules.
    pub policy: Policy,
    /// The worker of this process, if it has one.
    pub worker: Option<Worker>,
    /// The folder of the pictures on this host.
    pub posters: Option<LocalPath>,
    /// The zone of broadcast days and deadlines.
    pub zone: Zone,
    /// The folder in which nodes leave files, on this host.
    pub staging: Option<LocalPath>,
    /// None if workers check which targets there are.
    pub targets: Option<Targets>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigLine {
    pub key: String,
    /// Masked if it is secret.
    pub value: String,
    pub origin: String,
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct State {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) parts: Parts,
    /// URL prefix without a slash at its end; may be empty.
    pub(crate) base_path: String,
    pub(crate) instance: String,
    pub(crate) authentication: Authentication,
    pub(crate) cookie: CookieName,
    pub(crate) limits: Limits,
    pub(crate) live: Live,
    pub(crate) started: Monotonic,
    pub(crate) started_at: Timestamp,
    pub(crate) is_draining: AtomicBool,
    /// True once waiting requests have to end.
    pub(crate) stopping: watch::Sender<bool>,
    /// One permit per running change, which limits them and lets the server wait for them.
    pub(crate) changes: Arc<Semaphore>,
    pub(crate) emr_agent: EmrAgentOptions,
    pub(crate) lambda: LambdaOptions,
}

impl State {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    pub fn live(&self) -> &Live {
        &self.inner.live
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.parts.store
    }

    /// A transaction to read in. It ends with the timeout of the request.
    #[crate::boxed]
    pub(crate) async fn read(&self) -> Result<Tx, StoreError> {
        self.store().read_within(REQUEST_TIMEOUT).await
    }

    /// The flag that a command about jobs needs, if only a flag of this server names the folder of the jobs.
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

    /// Completes when the server is about to end.
    pub(crate) async fn stopping(&self) {
        // The sender lives as long as the state.
        drop(self.inner.stopping.subscribe().wait_for(|is_stopping| *is_stopping).await);
    }

    /// How many changes run now, including those whose clients have disconnected.
    pub fn changes_under_way(&self) -> usize {
        CHANGES_MAX as usize - self.inner.changes.available_permits()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// A path with the URL prefix.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.inner.base_path)
    }
}
