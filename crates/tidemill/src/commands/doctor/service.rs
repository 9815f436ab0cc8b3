//! Checks of configured services: Kafka, and nexrender, NAS and ffprobe for renders.

use super::{Check, Verdict};
use crate::commands::relay::sink;
use crate::commands::render::worker::WorkerSetup;
use crate::context::Context;
use crate::report::Failure;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::{LocalPath, Trouble};
use tidemill_engine::SystemClock;
use tidemill_kafka::Cluster;

/// Timeout for brokers, and for the free space of the NAS.
const WITHIN: Duration = Duration::from_secs(5);

/// With less free space, the next renders may not fit.
const FREE_BYTES_MIN: u64 = 1024 * 1024 * 1024;

/// None unless a Kafka sink is configured.
pub(super) async fn kafka(context: &Context) -> Option<Check> {
    let settings = context.settings();
    let servers = sink::kafka(settings.outbox.sink.as_deref()?)?;
    let options = match sink::kafka_options(settings, servers) {
        Ok(options) => options,
        Err(error) => return Some(Check { name: "Kafka", verdict: Verdict::of(&Failure::from(error)) }),
    };
    let verdict = match Cluster::look(&options, WITHIN).await {
        Ok(Cluster { brokers, topics }) => Verdict::Good(format!(
            "{} answers: {brokers} brokers, {topics} visible topics",
            options.bootstrap_servers
        )),
        Err(failure) => {
            let code = failure.code().unwrap_or(Code::Unexpected);
            Verdict::bad(format!("{failure} ({code})"), failure.fix())
        }
    };
    Some(Check { name: "Kafka", verdict })
}

/// Empty unless a render worker is configured.
pub(super) async fn renders(context: &Context) -> Vec<Check> {
    let setup = match WorkerSetup::of(context, Arc::new(SystemClock::new())) {
        Ok(None) => return Vec::new(),
        Ok(Some(setup)) => setup,
        Err(failure) => return vec![Check { name: "renders", verdict: Verdict::of(&failure) }],
    };
    let backends = setup.backends();
    let farm = match backends.farm.check().await {
        Ok(()) => Verdict::Good(format!("{} answers and accepts the secret", backends.farm.name())),
        Err(trouble) => problem(&trouble),
    };
    let nas = match backends.storage.check().await {
        Ok(()) => free_space(setup.output()).await,
        Err(trouble) => problem(&trouble),
    };
    let ffprobe = match backends.inspector.check().await {
        Ok(()) => Verdict::Good("ffprobe and ffmpeg work".to_owned()),
        Err(trouble) => problem(&trouble),
    };
    vec![
        Check { name: "nexrender", verdict: farm },
        Check { name: "NAS", verdict: nas },
        Check { name: "ffprobe", verdict: ffprobe },
    ]
}

/// The problem, its code and the first thing to try.
fn problem(trouble: &Trouble) -> Verdict {
    let code = trouble.code;
    let first = match code {
        Code::NexrenderDown => "start nexrender, or correct render.url; ",
        Code::NexrenderSecretRefused => "set render.secret to the secret of nexrender; ",
        Code::NotNexrender => "correct render.url, which is the address of another program; ",
        Code::NasNotMounted => "mount the NAS, or correct render.mount and the folders below it; ",
        Code::NasRefused | Code::NasFailed => "let this user write there and free some space; ",
        Code::RenderToolMissing => "install ffmpeg, or set render.ffprobe and render.ffmpeg; ",
        _ => "",
    };
    Verdict::bad(format!("{} ({code})", trouble.message), format!("{first}see `tidemill explain {code}`"))
}

/// Free space where renders are published. A NAS that hangs makes this a warning.
async fn free_space(folder: &LocalPath) -> Verdict {
    let name = folder.to_string();
    let looking = {
        let name = name.clone();
        tokio::task::spawn_blocking(move || rustix::fs::statvfs(name.as_str()))
    };
    let Ok(Ok(Ok(space))) = tokio::time::timeout(WITHIN, looking).await else {
        let detail = format!("{name} is writable, but its free space is unknown");
        return Verdict::warning(detail, format!("check it with `df -h {name}`"));
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let detail = format!("{name} is writable, {} MiB free", free / (1024 * 1024));
    if free < FREE_BYTES_MIN {
        return Verdict::warning(detail, "free some space: a render that does not fit fails");
    }
    Verdict::Good(detail)
}
