//! Functions for servers and files that the benchmarks share.

use anyhow::{Result, ensure};
use std::fs::File;
use std::process::Command;
use tidemill_testkit::{PostgresOptions, PrivatePostgres};

/// A server with enough memory for a long history.
pub(crate) fn roomy_postgres() -> Result<PrivatePostgres> {
    let settings = [("shared_buffers", "512MB"), ("max_wal_size", "8GB")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Ok(PrivatePostgres::start(&PostgresOptions { standby: false, settings })?)
}

/// Does now what otherwise happens later: vacuums and analyzes on PostgreSQL, and writes the new rows to disk.
pub(crate) fn tidy(url: &str) -> Result<()> {
    if let Some(path) = url.strip_prefix("sqlite://") {
        for file in [path.to_owned(), format!("{path}-wal")] {
            if let Ok(file) = File::open(file) {
                file.sync_all()?;
            }
        }
        return Ok(());
    }
    psql(url, &["vacuum analyze", "checkpoint"])
}

pub(crate) fn psql(url: &str, statements: &[&str]) -> Result<()> {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]);
    command.args(statements.iter().flat_map(|statement| ["-c", statement]));
    ensure!(command.status()?.success(), "psql failed");
    Ok(())
}
