//! A private render farm, and jobs for it.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::{RenderId, Uid};
use tidemill_nexrender::{FarmOptions, NexrenderFarm};
use tidemill_testkit::nexrender::find_home;
use tidemill_testkit::{NexrenderOptions, PrivateNexrender, skip};

/// Far longer than anything here takes, so that a hang is seen.
pub(crate) const SOON: Duration = Duration::from_secs(180);

/// A farm with so many nodes; none when its tests are skipped.
pub(crate) fn nexrender(nodes: usize) -> Option<PrivateNexrender> {
    skip::require("nexrender", find_home())?;
    Some(PrivateNexrender::start(&NexrenderOptions { nodes, ..NexrenderOptions::default() }).unwrap())
}

/// A client of it.
pub(crate) fn client(nexrender: &PrivateNexrender) -> NexrenderFarm {
    client_at(&nexrender.url(), nexrender.secret())
}

pub(crate) fn client_at(url: &str, secret: &str) -> NexrenderFarm {
    NexrenderFarm::new(&FarmOptions { secret: Some(secret.to_owned()), ..FarmOptions::new(url) }).unwrap()
}

pub(crate) fn uid(render: i64) -> Uid {
    Uid::new(RenderId::new(render), Epoch::new(1))
}

/// A job that renders as `stub` says, and leaves its file at `output`.
pub(crate) fn job(nexrender: &PrivateNexrender, uid: Uid, stub: &str, output: &Path) -> Value {
    json!({
        "uid": uid.to_string(),
        "template": {
            "src": format!("file://{}", nexrender.templates().join("sample.aep").display()),
            "name": "template.aep",
            "composition": format!("Main [stub:{stub}]"),
            "outputModule": "H.264",
            "outputExt": "mp4",
        },
        "assets": [],
        "actions": {"postrender": [{"module": "@nexrender/action-copy", "output": output.display().to_string()}]},
    })
}

/// How many jobs were posted, whatever became of them.
pub(crate) fn jobs_posted(nexrender: &PrivateNexrender) -> usize {
    nexrender.server_log().matches("creating new job").count()
}
