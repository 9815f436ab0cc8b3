//! Measures a rendered file with ffprobe and ffmpeg. `domain::render::check` judges the result.

mod decode;
mod probe;
mod program;

use crate::blocking_pool::BlockingPool;
use crate::storage::folder::io_trouble;
use program::{Program, Run};
use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::profile::Decoding;
use tidemill_domain::render::{Failure, LocalPath, Probe, Profile, Trouble};
use tidemill_engine::render::{Asking, Inspector};

/// For the descriptions of all streams.
const PROBE_BYTES_MAX: usize = 4 << 20;

/// Enough for one frame of the largest clip.
const PICTURE_BYTES_MAX: usize = 64 << 20;

const VERSION_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct InspectorOptions {
    pub ffprobe: PathBuf,
    pub ffmpeg: PathBuf,
    /// Timeout of ffprobe, and of ffmpeg before it has decoded anything.
    pub probe_within: Duration,
    /// Seconds that ffmpeg may take per second of video.
    pub decode_factor: f64,
    /// Timeout of one file system call.
    pub patience: Duration,
}

impl Default for InspectorOptions {
    fn default() -> Self {
        Self {
            ffprobe: PathBuf::from("ffprobe"),
            ffmpeg: PathBuf::from("ffmpeg"),
            probe_within: Duration::from_secs(30),
            decode_factor: 4.0,
            patience: Duration::from_secs(60),
        }
    }
}

#[derive(Clone, Debug)]
pub struct FfmpegInspector {
    ffprobe: Program,
    ffmpeg: Program,
    probe_within: Duration,
    decode_factor: f64,
    blocking_pool: Arc<BlockingPool>,
}

impl FfmpegInspector {
    pub fn new(options: InspectorOptions) -> Self {
        Self {
            ffprobe: Program { name: "ffprobe", path: options.ffprobe },
            ffmpeg: Program { name: "ffmpeg", path: options.ffmpeg },
            probe_within: options.probe_within,
            decode_factor: options.decode_factor.clamp(0.0, 1_000.0),
            blocking_pool: Arc::new(BlockingPool::new(options.patience)),
        }
    }

    /// The size of a regular file; links are rejected, because they might point anywhere.
    async fn size(&self, file: &LocalPath) -> Result<u64, Trouble> {
        let path = PathBuf::from(file.to_string());
        let looking = self.blocking_pool.run(file.to_string(), move |_| match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => Ok(found.len()),
            Ok(_) => Err(invalid(path.display(), "it is not a regular file")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(invalid(path.display(), "it is not there"))
            }
            Err(error) => Err(io_trouble(path.display(), &error)),
        });
        looking.await
    }

    async fn probe(&self, file: &LocalPath) -> Result<Probe, Trouble> {
        let bytes = self.size(file).await?;
        let before = ["-v", "error", "-of", "json", "-count_packets", "-show_streams", "-show_format"];
        let run = self.run(arguments(&before, file, &[]), PROBE_BYTES_MAX);
        let said = output(&self.ffprobe, run, file, "ffprobe cannot read it").await?;
        probe::parse(&String::from_utf8_lossy(&said), bytes).map_err(|why| invalid(file, why))
    }

    fn run(&self, arguments: Vec<String>, stdout_max: usize) -> Run {
        Run { arguments, within: self.probe_within, stdout_max }
    }
}

/// What a program says about a file; if it fails, its first complaint.
async fn output(program: &Program, run: Run, file: &LocalPath, otherwise: &str) -> Result<Vec<u8>, Trouble> {
    let mut complaint = None;
    let ran = program.run(run, |line| _ = complaint.get_or_insert_with(|| line.to_owned())).await?;
    if !ran.is_success || ran.is_cut || ran.stdout.is_empty() {
        return Err(invalid(file, complaint.as_deref().unwrap_or(otherwise)));
    }
    Ok(ran.stdout)
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

/// A file that cannot be measured.
fn invalid(file: impl Display, why: &str) -> Trouble {
    Trouble::new(Failure::OutputInvalid, &format!("{file}: {why}"))
}

/// A playlist must not open other files, and no name is read as a protocol or an option.
fn arguments(before: &[&str], file: &LocalPath, after: &[&str]) -> Vec<String> {
    let input = ["-protocol_whitelist", "file", "-i", &format!("file:{file}")];
    [before, &input, after].concat().into_iter().map(str::to_owned).collect()
}

impl Inspector for FfmpegInspector {
    fn check(&self) -> Asking<'_, ()> {
        Box::pin(async move {
            for program in [&self.ffprobe, &self.ffmpeg] {
                let run =
                    Run { arguments: vec!["-version".into()], within: VERSION_WITHIN, stdout_max: 64 << 10 };
                if !program.run(run, |_| ()).await?.is_success {
                    return Err(program.missing("it does not even say its version"));
                }
            }
            Ok(())
        })
    }

    fn inspect<'a>(&'a self, file: &'a LocalPath, profile: &'a Profile) -> Asking<'a, Probe> {
        Box::pin(async move {
            let mut probe = self.probe(file).await?;
            if profile.decoding == Decoding::On {
                let seconds = probe::seconds(&probe);
                // A file may claim any duration; the limit is a day.
                let long = (self.decode_factor * seconds).clamp(0.0, 86_400.0);
                let heard = self.decode(file, self.probe_within + Duration::from_secs_f64(long)).await?;
                probe.shares = heard.shares(seconds, probe.audios.len());
                probe.decoded = Some(heard.decoded());
            }
            Ok(probe)
        })
    }

    /// A still from the middle of a clip.
    fn poster<'a>(&'a self, file: &'a LocalPath, picture: &'a LocalPath) -> Asking<'a, ()> {
        Box::pin(async move {
            let middle = probe::seconds(&self.probe(file).await?) / 2.0;
            let target = PathBuf::from(picture.to_string());
            let is_png = target.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
            let encoder = if is_png { "png" } else { "mjpeg" };
            let before = ["-nostdin", "-hide_banner", "-v", "error", "-ss", &format!("{middle:.3}")];
            // Through a pipe: ffmpeg treats % in a file name as a pattern.
            let after = ["-map", "0:V:0", "-frames:v", "1", "-c:v", encoder, "-f", "image2pipe", "-"];
            let run = self.run(arguments(&before, file, &after), PICTURE_BYTES_MAX);
            let bytes = output(&self.ffmpeg, run, file, "ffmpeg finds no picture in it").await?;
            let writing = self.blocking_pool.run(picture.to_string(), move |pulse| {
                pulse.beat()?;
                write(&target, &bytes).map_err(|error| io_trouble(target.display(), &error))
            });
            writing.await
        })
    }
}
