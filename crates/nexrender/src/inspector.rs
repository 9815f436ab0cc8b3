//! Measures a rendered file with ffprobe and ffmpeg. `domain::render::check` judges the result.

mod decode;
mod probe;
mod program;

use crate::blocking_pool::BlockingPool;
use crate::storage::errno::io_trouble;
use program::{Program, Run};
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

/// Timeout of `-version`.
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

    async fn ask_for_programs(&self) -> Result<(), Trouble> {
        for program in [&self.ffprobe, &self.ffmpeg] {
            let run =
                Run { arguments: vec!["-version".into()], within: VERSION_WITHIN, stdout_max: 64 << 10 };
            let ran = program.run(run, |_| ()).await?;
            if !ran.is_success {
                return Err(program.missing("it does not even say its version"));
            }
        }
        Ok(())
    }

    async fn look(&self, file: &LocalPath, profile: &Profile) -> Result<Probe, Trouble> {
        let bytes = self.size(file).await?;
        let mut probe = self.probe(file, bytes).await?;
        if profile.decoding == Decoding::On {
            let seconds = probe::seconds(&probe);
            let heard = self.decode(file, self.decode_within(seconds)).await?;
            probe.shares = heard.shares(seconds, probe.audios.len());
            probe.decoded = Some(heard.decoded());
        }
        Ok(probe)
    }

    /// The size of a regular file; links are rejected, because they might point anywhere.
    async fn size(&self, file: &LocalPath) -> Result<u64, Trouble> {
        let path = path_of(file);
        let looking = self.blocking_pool.run(file.to_string(), move |_| match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => Ok(found.len()),
            Ok(_) => Err(invalid(&path, "it is not a regular file")),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(invalid(&path, "it is not there")),
            Err(error) => Err(io_trouble(path.display(), &error)),
        });
        looking.await
    }

    async fn probe(&self, file: &LocalPath, bytes: u64) -> Result<Probe, Trouble> {
        let arguments = ["-v", "error", "-of", "json", "-count_packets", "-show_streams", "-show_format"];
        let mut complaint = None;
        let run = Run {
            arguments: [&words(&arguments)[..], &input(file)].concat(),
            within: self.probe_within,
            stdout_max: PROBE_BYTES_MAX,
        };
        let ran = self.ffprobe.run(run, |line| _ = complaint.get_or_insert_with(|| line.to_owned())).await?;
        if !ran.is_success || ran.is_cut {
            let why = complaint.unwrap_or_else(|| "ffprobe cannot read it".to_owned());
            return Err(invalid(&path_of(file), &why));
        }
        let text = String::from_utf8_lossy(&ran.stdout);
        probe::parse(&text, bytes).map_err(|why| invalid(&path_of(file), why))
    }

    fn decode_within(&self, seconds: f64) -> Duration {
        // A file may claim any duration; the limit is a day.
        let long = (self.decode_factor * seconds).clamp(0.0, 86_400.0);
        self.probe_within + Duration::from_secs_f64(long)
    }

    /// A still from the middle of a clip.
    async fn take_picture(&self, file: &LocalPath, picture: &LocalPath) -> Result<(), Trouble> {
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

/// A file that cannot be measured.
fn invalid(path: &Path, why: &str) -> Trouble {
    Trouble::new(Failure::OutputInvalid, &format!("{}: {why}", path.display()))
}

fn path_of(file: &LocalPath) -> PathBuf {
    PathBuf::from(file.to_string())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Input arguments: a playlist must not open other files, and no name is read as a protocol or an option.
fn input(file: &LocalPath) -> [String; 4] {
    ["-protocol_whitelist".to_owned(), "file".to_owned(), "-i".to_owned(), format!("file:{file}")]
}

impl Inspector for FfmpegInspector {
    fn check(&self) -> Asking<'_, ()> {
        Box::pin(self.ask_for_programs())
    }

    fn inspect<'a>(&'a self, file: &'a LocalPath, profile: &'a Profile) -> Asking<'a, Probe> {
        Box::pin(self.look(file, profile))
    }

    fn poster<'a>(&'a self, file: &'a LocalPath, picture: &'a LocalPath) -> Asking<'a, ()> {
        Box::pin(self.take_picture(file, picture))
    }
}
