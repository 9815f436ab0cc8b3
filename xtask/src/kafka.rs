//! The Kafka that the tests publish to: the jars of Apache Kafka, and a client in Python that is not ours.

use crate::cache::Kept;
use crate::process::run_in_terminal;
use crate::python::{self, Environment};
use crate::supervise::Cancel;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::account::find_program;
use tidemill_testkit::kafka::HOME;

/// Where tests find a Python that has a client of Kafka.
pub(crate) const PYTHON: &str = "TIDEMILL_TEST_KAFKA_PYTHON";

/// Names the jars and their versions.
const POM: &str = include_str!("../kafka/pom.xml");

const POM_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kafka/pom.xml");

/// What Maven is to do with it.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// The client of the consuming side.
const CLIENT: &str = "2.16.1";

/// Whether this machine has what is needed: a Java that can compile, Maven, and a Python for the client.
pub(crate) fn can_be_installed() -> bool {
    ["java", "javac", "mvn"].iter().all(|program| find_program(program).is_some()) && find_python().is_some()
}

/// The folder of the jars, which are fetched if they are not there yet.
pub(crate) fn home(cancel: &Cancel) -> Result<PathBuf, String> {
    let version = version().ok_or("the pom of the tests names no version of Kafka")?;
    let kept =
        Kept { name: &format!("kafka {version}"), folder: &format!("kafka-{version}"), size: "about 50 MB" };
    let folder = kept.ready(has_jars, |folder| {
        let mut maven = Command::new(find_program("mvn").ok_or("the jars of Kafka need Maven")?);
        maven.args(["--quiet", "--batch-mode", "--file", POM_FILE, COPY, "-DincludeScope=runtime"]);
        maven.arg(format!("-DoutputDirectory={}", folder.join("jars").display()));
        run_in_terminal(maven, cancel)?;
        if has_jars(folder) { Ok(()) } else { Err("Maven has brought no jars of Kafka".to_owned()) }
    })?;
    Ok(folder.join("jars"))
}

/// A Python with confluent-kafka, which is installed if it is not there yet.
pub(crate) fn python(cancel: &Cancel) -> Result<PathBuf, String> {
    let environment = Environment {
        name: &format!("confluent-kafka {CLIENT}"),
        folder: format!("confluent-kafka-{CLIENT}"),
        python: find_python().ok_or("the client of Kafka needs Python 3.9 or later")?,
        install: &["--only-binary=:all:", &format!("confluent-kafka=={CLIENT}")],
        size: "about 40 MB",
    };
    let place = environment.ready(cancel, |environment| {
        let mut check = Command::new(environment.join("bin/python"));
        check.args(["-c", "import confluent_kafka.admin"]);
        Ok(check)
    })?;
    Ok(place.join("bin/python"))
}

/// Tells a command where both are.
pub(crate) fn tell(command: &mut Command, cancel: &Cancel) -> Result<(), String> {
    command.env(HOME, home(cancel)?).env(PYTHON, python(cancel)?);
    Ok(())
}

fn find_python() -> Option<&'static str> {
    python::find(&["python3"], "sys.version_info >= (3, 9)")
}

/// The version of the broker, as the pom has it.
fn version() -> Option<&'static str> {
    let (_, behind) = POM.split_once("<artifactId>kafka_2.13</artifactId>")?;
    let (_, behind) = behind.split_once("<version>")?;
    Some(behind.split_once("</version>")?.0)
}

fn has_jars(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder.join("jars")) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("kafka-clients-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_pom() {
        assert!(version().unwrap().split('.').all(|part| part.parse::<u32>().is_ok()));
    }

    #[test]
    fn the_jars_are_there_when_the_client_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("jars")).unwrap();

        let before = has_jars(folder.path());
        fs::write(folder.path().join("jars/kafka-clients-4.3.0.jar"), "").unwrap();

        assert_eq!((before, has_jars(folder.path())), (false, true));
    }
}
