//! The same job in Spring Batch, in a Java of its own.

use super::case::{Case, Measured, Stage};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use tidemill_testkit::java::{self, SPRING_HOME};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/jobs/spring/Copy.java");

/// The folder of its jars; none if it is not to be measured.
pub(super) fn home() -> Option<PathBuf> {
    java::find_home(SPRING_HOME)
}

pub(super) fn run(stage: &Stage, case: Case, chunk: usize) -> Result<Measured> {
    let home = home().context("the jars of Spring Batch are missing")?;
    let mut command = java::command(&home).context("Spring Batch needs Java")?;
    command.args(["-XX:+UseSerialGC", "-Xmx512m", "-Duser.timezone=UTC", PROGRAM]);
    command.args([jdbc(&stage.url)?, chunk.to_string(), stage.rows_of(case).to_string()]);
    if matches!(case, Case::SpringCsv { .. }) {
        command.arg(&stage.csv);
    }
    let ran = command.output()?;
    ensure!(ran.status.success(), "{} failed: {}", case.name(), String::from_utf8_lossy(&ran.stderr));
    Ok(serde_json::from_slice(&ran.stdout)?)
}

/// `postgres://USER@HOST:PORT/DATABASE` as Java's driver writes it.
fn jdbc(url: &str) -> Result<String> {
    let (_, rest) = url.split_once("://").context("a URL")?;
    let (user, place) = rest.split_once('@').context("a URL with a user")?;
    Ok(format!("jdbc:postgresql://{place}?user={user}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_written_as_java_writes_it() {
        assert_eq!(jdbc("postgres://me@127.0.0.1:5/db").unwrap(), "jdbc:postgresql://127.0.0.1:5/db?user=me");
        assert!(jdbc("postgres://127.0.0.1:5/db").is_err());
    }
}
