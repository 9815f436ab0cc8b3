//! What else is used, where it is configured: Kafka, and what renders need.

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

/// How long brokers may take to say who they are, and a NAS to say how much room it has.
const WITHIN: Duration = Duration::from_secs(5);

/// With less room than that, the next films may not fit.
const FREE_BYTES_MIN: u64 = 1024 * 1024 * 1024;

/// The brokers, where relays publish to them.
pub(super) async fn kafka(context: &Context) -> Option<Check> {
    let settings = context.settings();
    let servers = sink::kafka(settings.outbox.sink.as_deref()?)?;
    let options = match sink::kafka_options(settings, servers) {
        Ok(options) => options,
        Err(error) => return Some(Check { name: "Kafka", verdict: Verdict::of(&Failure::from(error)) }),
    };
    let verdict = match Cluster::look(&options, WITHIN).await {
        Ok(Cluster { brokers, topics }) => Verdict::Good(format!(
            "{} answers: {brokers} brokers, {topics} topics that may be seen",
            options.bootstrap_servers
        )),
        Err(failure) => {
            let code = failure.code().unwrap_or(Code::Unexpected);
            Verdict::bad(format!("{failure} ({code})"), failure.fix())
        }
    };
    Some(Check { name: "Kafka", verdict })
}

/// What renders need, where they are made.
pub(super) async fn renders(context: &Context) -> Vec<Check> {
    let wanted = match WorkerSetup::of(context, Arc::new(SystemClock::new())) {
        Ok(None) => return Vec::new(),
        Ok(Some(wanted)) => wanted,
        Err(failure) => return vec![Check { name: "renders", verdict: Verdict::of(&failure) }],
    };
    let backends = wanted.backends();
    let farm = match backends.farm.check().await {
        Ok(()) => Verdict::Good(format!("{} answers, and takes the secret", backends.farm.name())),
        Err(trouble) => told(&trouble),
    };
    let nas = match backends.storage.check().await {
        Ok(()) => room(wanted.output()).await,
        Err(trouble) => told(&trouble),
    };
    let ffprobe = match backends.inspector.check().await {
        Ok(()) => Verdict::Good("ffprobe and ffmpeg can be run".to_owned()),
        Err(trouble) => told(&trouble),
    };
    vec![
        Check { name: "nexrender", verdict: farm },
        Check { name: "NAS", verdict: nas },
        Check { name: "ffprobe", verdict: ffprobe },
    ]
}

/// What is wrong, why, and what helps first; the page of its code tells more.
fn told(trouble: &Trouble) -> Verdict {
    let code = trouble.code;
    let first = match code {
        Code::NexrenderDown => "start nexrender, or correct render.url; ",
        Code::NexrenderSecretRefused => "set render.secret to the secret that nexrender was started with; ",
        Code::NotNexrender => "correct render.url, which leads to something else; ",
        Code::NasNotMounted => "mount the NAS, or correct render.mount and the folders below it; ",
        Code::NasRefused | Code::NasFailed => "let this user write there, and make room; ",
        Code::RenderToolMissing => "install ffmpeg, or set render.ffprobe and render.ffmpeg; ",
        _ => "",
    };
    Verdict::bad(format!("{} ({code})", trouble.message), format!("{first}see `tidemill explain {code}`"))
}

/// How much room there is where films are published. A NAS that hangs is not waited for.
async fn room(folder: &LocalPath) -> Verdict {
    let name = folder.to_string();
    let looking = {
        let name = name.clone();
        tokio::task::spawn_blocking(move || rustix::fs::statvfs(name.as_str()))
    };
    let Ok(Ok(Ok(space))) = tokio::time::timeout(WITHIN, looking).await else {
        let detail = format!("{name} can be written, but does not say how much room it has");
        return Verdict::warning(detail, format!("look at it with `df -h {name}`"));
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let detail = format!("{name} is there and can be written, {} MiB free", free / (1024 * 1024));
    if free < FREE_BYTES_MIN {
        return Verdict::warning(detail, "make room: a film that does not fit fails");
    }
    Verdict::Good(detail)
}
