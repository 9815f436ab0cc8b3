//! The loops that belong to every server.

use super::rules;
use crate::commands::prelude::*;
use crate::commands::render::Setup;
use crate::config::{Secret, Settings};
use crate::declared::JobFolder;
use crate::telemetry;
use std::sync::Arc;
use tidemill_aws::Environment;
use tidemill_domain::job::retention::{Retention, Unfinished};
use tidemill_engine::alert::channel::{Channel, LogChannel};
use tidemill_engine::alert::{Alerting, signal};
use tidemill_engine::job::command::log::sweep_hourly;
use tidemill_engine::job::partition::run_worker;
use tidemill_engine::job::{Launcher, gauge, purge, recovery, reload};
use tidemill_engine::pool::{self, Pools, keeper, on_demand, probe};
use tidemill_engine::render::RenderFiles;
use tidemill_engine::{Process, SystemClock, outbox, reaper, render, schedule};
use tidemill_server::mail::{Mail, MailOptions};
use tidemill_server::sns::{Sns, TopicArn};
use tidemill_server::webhook::Webhook;
use tokio::task::{AbortHandle, JoinSet};

/// What the loops of a server do, as the configuration wants it. Nothing runs yet.
pub(super) struct Background {
    alerting: Alerting,
    pub(super) settings: Settings,
    job_folder: Option<Arc<JobFolder>>,
    /// Where this host reaches the NAS.
    render_files: Option<RenderFiles>,
}

impl Background {
    pub(super) fn of(context: &Context, clock: Arc<SystemClock>) -> Result<Self> {
        let settings = context.settings().clone();
        let render = &settings.render;
        // With wrong settings only rows would go, and nobody would know of their files.
        let render_files = match (&render.mount, render.keep_for) {
            (Some(_), Some(_)) => Some(Setup::read(render)?.files(render, &clock)),
            _ => None,
        };
        let alerting = alerting(context, clock)?;
        Ok(Self { alerting, settings, job_folder: context.job_folder.clone(), render_files })
    }

    /// The loops, which end when the set is dropped, and those of them that launch jobs.
    pub(super) fn start(
        self,
        process: &Process,
        launcher: &Launcher,
        pools: &Pools,
    ) -> (JoinSet<()>, [AbortHandle; 2]) {
        let Settings {
            jobs, server, probes, on_demand: hooks, pools: pool_settings, render: renders, ..
        } = self.settings;
        let (mut all, store) = (JoinSet::new(), pools.store());
        all.spawn(reaper::run(process.clone()));
        all.spawn(self.alerting.run(process.clone()));
        all.spawn(gauge::run(store.clone()));
        all.spawn(pool::gauge::run(pools.clone()));
        all.spawn(outbox::gauge::run(store.clone()));
        all.spawn(render::gauge::run(store.clone()));
        if server.emf {
            all.spawn(telemetry::run_emf(pools.clone()));
        }
        // Without `jobs.keep_for` and `jobs.keep_instances`, everything is kept.
        if let Ok(retention) = Retention::new(jobs.keep_for, jobs.keep_instances, Unfinished::Keep) {
            all.spawn(purge::run(process.clone(), retention));
        }
        if let Some(older_than) = renders.keep_for {
            all.spawn(render::purge::run(process.clone(), older_than, self.render_files));
        }
        if let Some(logs) = launcher.log_folder() {
            all.spawn(sweep_hourly(process.clone(), logs.clone()));
        }
        all.spawn(keeper::run(process.clone(), pool_settings.history));
        for probe in probes {
            all.spawn(probe::run(process.clone(), pools.clone(), probe));
        }
        for hook in hooks {
            all.spawn(on_demand::run(process.clone(), pools.clone(), hook));
        }
        if let Some(folder) = self.job_folder {
            all.spawn(reload::run(launcher.clone(), Arc::new(move || folder.reload())));
        }
        all.spawn(run_worker(launcher.clone(), jobs.max_partitions as usize));
        let restarting = all.spawn(recovery::run(launcher.clone()));
        let scheduling = all.spawn(schedule::run(launcher.clone()));
        (all, [restarting, scheduling])
    }
}

/// Judges by the rules in force, and tells those whom they name.
fn alerting(context: &Context, clock: Arc<SystemClock>) -> Result<Alerting> {
    let settings = &context.settings().alert;
    let mut channels: Vec<Arc<dyn Channel>> = vec![Arc::new(LogChannel)];
    let bad = |what: String| Failure::new(Code::BadValue, what, "correct the configuration of the alerts");
    for (name, webhook) in &settings.webhooks {
        let secret = webhook.secret.as_ref().map(|secret| secret.expose().to_owned());
        let made = Webhook::new(name, webhook.url.expose(), secret, webhook.allow_private, clock.clone());
        channels.push(Arc::new(made.map_err(|error| bad(error.to_string()))?.in_format(webhook.format)));
    }
    for (name, mail) in &settings.mail {
        let exposed = |password: &Secret| password.expose().to_owned();
        let options = MailOptions {
            host: mail.host.clone(),
            port: mail.port.and_then(|port| port.try_into().ok()),
            security: mail.tls,
            ca: mail.ca.clone(),
            login: mail.user.clone().zip(mail.password.as_ref().map(exposed)),
            from: mail.from.clone(),
            to: mail.to.clone(),
        };
        channels.push(Arc::new(Mail::new(name, options).map_err(|error| bad(error.to_string()))?));
    }
    for (name, sns) in &settings.sns {
        let failed = |why: String| bad(format!("the topic of {name} cannot be used: {why}"));
        let topic = sns.topic.parse::<TopicArn>().map_err(|error| failed(error.to_string()))?;
        let (environment, endpoint) = (Environment::of_process(), sns.endpoint.as_deref());
        let made = Sns::new(name, topic, sns.format, endpoint, environment, clock.clone());
        channels.push(Arc::new(made.map_err(|error| failed(error.to_string()))?));
    }
    Alerting::new(rules(context), signal::known(clock.clone()), channels, clock)
        .map_err(|error| bad(error.to_string()))
}
