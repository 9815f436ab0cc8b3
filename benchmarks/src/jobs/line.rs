//! The baselines: bare COPY with the same commits.

use super::case::{LINE_ROWS, Measured, Stage};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Command, Stdio};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;

fn psql(stage: &Stage) -> Command {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &stage.url]);
    command
}

/// One `psql` copies out while another copies in. Each 1000 rows are a separate COPY, which commits.
pub(super) fn copy(stage: &Stage) -> Result<Measured> {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    let mut out = psql(stage).args(["-c", "copy source to stdout"]).stdout(Stdio::piped()).spawn()?;
    let mut into = psql(stage).stdin(Stdio::piped()).spawn()?;
    let mut rows = BufReader::with_capacity(1 << 20, out.stdout.take().context("psql writes")?);
    let mut pipe = BufWriter::with_capacity(1 << 20, into.stdin.take().context("psql reads")?);
    let mut line = Vec::new();
    let mut count = 0;
    loop {
        line.clear();
        if rows.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if count % LINE_ROWS == 0 {
            pipe.write_all(if count == 0 {
                b"copy target from stdin;\n"
            } else {
                b"\\.\ncopy target from stdin;\n"
            })?;
        }
        pipe.write_all(&line)?;
        count += 1;
    }
    pipe.write_all(b"\\.\n")?;
    drop(pipe);
    ensure!(out.wait()?.success() && into.wait()?.success(), "psql failed");
    let seconds = clock.monotonic().since(start).as_secs_f64();
    Ok(Measured::line(stage.rows, seconds))
}

/// One `psql` runs `\copy` for each piece.
pub(super) fn csv(stage: &Stage) -> Result<Measured> {
    let mut script = String::new();
    for piece in &stage.pieces {
        writeln!(script, "\\copy target from '{}' csv", piece.display())?;
    }
    let path = stage.csv.with_extension("sql");
    std::fs::write(&path, script)?;
    let clock = SystemClock::new();
    let start = clock.monotonic();
    ensure!(psql(stage).arg("-f").arg(&path).status()?.success(), "psql failed");
    let seconds = clock.monotonic().since(start).as_secs_f64();
    Ok(Measured::line(stage.rows, seconds))
}
