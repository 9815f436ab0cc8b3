//! The loops that belong to every server.

use super::rules;
use crate::context::Context;
use crate::declared::JobFolder;
use crate::report::Failure;
use crate::telemetry;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::job::retention::{Retention, Unfinished};
use tidemill_engine::alert::channel::{Channel, LogChannel};
use tidemill_engine::alert::{Alerting, signal};
use tidemill_engine::job::command::log::sweep_hourly;
use tidemill_engine::job::partition::run_worker;
use tidemill_engine::job::{Launcher, purge, recovery, reload};
use tidemill_engine::pool::{self, Pools, Probe, keeper, probe};
use tidemill_engine::{Process, SystemClock, outbox, reaper, render, schedule};
use tidemill_server::webhook::Webhook;
use tokio::task::{AbortHandle, JoinSet};

/// What the loops of a server do, as the configuration wants it. Nothing runs yet.
pub(super) struct Background {
    alerting: Alerting,
    retention: Option<Retention>,
    partitions_max: usize,
    pub(super) prints_emf: bool,
    probes: Vec<Probe>,
    history: Duration,
    job_folder: Option<Arc<JobFolder>>,
}

impl Background {
    pub(super) fn of(context: &Context, clock: Arc<SystemClock>) -> Result<Self, Failure> {
        let settings = context.settings();
        Ok(Self {
            alerting: alerting(context, clock)?,
            retention: retention(context),
            partitions_max: settings.jobs.max_partitions as usize,
            prints_emf: settings.server.emf,
            probes: settings.probes.clone(),
            history: settings.pools.history,
            job_folder: context.job_folder().cloned(),
        })
    }

    pub(super) fn start(self, process: &Process, launcher: &Launcher, pools: &Pools) -> Loops {
        let (mut all, store) = (JoinSet::new(), pools.store());
        all.spawn(reaper::run(process.clone()));
        all.spawn(self.alerting.run(process.clone()));
        all.spawn(pool::gauge::run(store.clone()));
        all.spawn(outbox::gauge::run(store.clone()));
        all.spawn(render::gauge::run(store.clone()));
        if self.prints_emf {
            all.spawn(telemetry::emf::run(pools.clone()));
        }
        if let Some(retention) = self.retention {
            all.spawn(purge::run(process.clone(), retention));
        }
        if let Some(logs) = launcher.log_folder() {
            all.spawn(sweep_hourly(process.clone(), logs.clone()));
        }
        all.spawn(keeper::run(process.clone(), self.history));
        for probe in self.probes {
            all.spawn(probe::run(process.clone(), pools.clone(), probe));
        }
        if let Some(folder) = self.job_folder {
            all.spawn(reload::run(launcher.clone(), Arc::new(move || folder.reload())));
        }
        all.spawn(run_worker(launcher.clone(), self.partitions_max));
        let restarting = all.spawn(recovery::run(launcher.clone()));
        let scheduling = all.spawn(schedule::run(launcher.clone()));
        Loops { _end_when_dropped: all, launching: [restarting, scheduling] }
    }
}

pub(super) struct Loops {
    _end_when_dropped: JoinSet<()>,
    launching: [AbortHandle; 2],
}

impl Loops {
    /// From here on nothing is launched by itself.
    pub(super) fn launch_no_more(&self) {
        self.launching.iter().for_each(AbortHandle::abort);
    }
}

/// What is kept of the history of jobs; none when all is.
fn retention(context: &Context) -> Option<Retention> {
    let jobs = &context.settings().jobs;
    Retention::new(jobs.keep_for, jobs.keep_instances, Unfinished::Keep).ok()
}

/// Judges by the rules in force, and tells those whom they name.
fn alerting(context: &Context, clock: Arc<SystemClock>) -> Result<Alerting, Failure> {
    let settings = &context.settings().alert;
    let mut channels: Vec<Arc<dyn Channel>> = vec![Arc::new(LogChannel)];
    let bad = |what: String| Failure::new(Code::BadValue, what, "correct the configuration of the alerts");
    for (name, webhook) in &settings.webhooks {
        let secret = webhook.secret.as_ref().map(|secret| secret.expose().to_owned());
        let made = Webhook::new(name, webhook.url.expose(), secret, webhook.allow_private, clock.clone());
        channels.push(Arc::new(made.map_err(|error| bad(error.to_string()))?.in_format(webhook.format)));
    }
    Alerting::new(rules(context), signal::known(clock.clone()), channels, clock)
        .map_err(|error| bad(error.to_string()))
}
