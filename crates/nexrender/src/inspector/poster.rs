//! A still from the middle of a clip.

use super::program::Run;
use super::{FfmpegInspector, input, invalid, path_of, probe, words};
use crate::storage::errno::io_trouble;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tidemill_domain::render::{LocalPath, Trouble};

/// Enough for one frame of the largest clip.
const PICTURE_BYTES_MAX: usize = 64 << 20;

impl FfmpegInspector {
    pub(super) async fn take_picture(&self, file: &LocalPath, picture: &LocalPath) -> Result<(), Trouble> {
        let bytes = self.size(file).await?;
        let middle = probe::seconds(&self.probe(file, bytes).await?) / 2.0;
        let target = path_of(picture);
        let is_png = target.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
        let encoder = if is_png { "png" } else { "mjpeg" };
        let before = ["-nostdin", "-hide_banner", "-v", "error", "-ss", &format!("{middle:.3}")];
        // Through a pipe: ffmpeg treats % in a file name as a pattern.
        let after = ["-map", "0:V:0", "-frames:v", "1", "-c:v", encoder, "-f", "image2pipe", "-"];
        let arguments = [&words(&before)[..], &input(file), &words(&after)].concat();
        let mut complaint = None;
        let run = Run { arguments, within: self.probe_within, stdout_max: PICTURE_BYTES_MAX };
        let ran = self.ffmpeg.run(run, |line| _ = complaint.get_or_insert_with(|| line.to_owned())).await?;
        if !ran.is_success || ran.is_cut || ran.stdout.is_empty() {
            let why = complaint.unwrap_or_else(|| "ffmpeg finds no picture in it".to_owned());
            return Err(invalid(&path_of(file), &why));
        }
        let writing = self.blocking_pool.run(picture.to_string(), move |pulse| {
            pulse.beat()?;
            write(&target, &ran.stdout).map_err(|error| io_trouble(target.display(), &error))
        });
        writing.await
    }
}

/// Replaces the file atomically; an earlier one shows the same render.
fn write(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut part = target.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, target));
    if written.is_err() {
        // The part may not exist.
        let _removed = fs::remove_file(&part);
    }
    written
}
