//! Clips of every kind, made by ffmpeg.

use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_domain::render::{LocalPath, Profile};
use tidemill_testkit::account::find_program;
use tidemill_testkit::skip;

/// Whether there is an ffmpeg; it comes with what renders.
pub(crate) fn is_there() -> bool {
    skip::require("nexrender", find_program("ffmpeg").and(find_program("ffprobe"))).is_some()
}

/// What a clip is made of.
pub(crate) struct Clip<'a> {
    pub(crate) picture: &'a str,
    pub(crate) encoder: &'a str,
    pub(crate) others: &'a [&'a str],
}

impl Default for Clip<'_> {
    fn default() -> Self {
        Self { picture: "testsrc2=size=320x180:rate=30", encoder: "libx264", others: &[] }
    }
}

impl Clip<'_> {
    /// Five seconds with sound.
    pub(crate) fn make(&self, file: &Path) -> PathBuf {
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", self.picture]);
        command.args(["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000", "-t", "5"]);
        command.args(["-c:v", self.encoder, "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"]);
        command.args(self.others).arg(format!("file:{}", file.display()));
        let made = command.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        file.to_owned()
    }
}

/// The profile of such a clip.
pub(crate) fn profile() -> Profile {
    serde_json::from_value(json!({
        "composition": "Main", "template": "/templates/sample.aep", "output_module": "H.264",
        "width": 320, "height": 180, "rate": "30", "duration": "5s", "audio": "required",
    }))
    .unwrap()
}

pub(crate) fn local(path: &Path) -> LocalPath {
    LocalPath::parse(path.to_str().unwrap()).unwrap()
}
