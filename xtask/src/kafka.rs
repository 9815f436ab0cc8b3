//! The Kafka that the tests publish to: the jars of Apache Kafka, and a client in Python that is not ours.

use crate::jars::{self, KAFKA};
use crate::python::{self, Environment};
use crate::supervise::Cancel;
use std::path::PathBuf;
use std::process::Command;
use tidemill_testkit::kafka::HOME;

/// Where tests find a Python that has a client of Kafka.
pub(crate) const PYTHON: &str = "TIDEMILL_TEST_KAFKA_PYTHON";

/// The client of the consuming side.
const CLIENT: &str = "2.16.1";

/// Whether this machine has what is needed: that for the jars, and a Python for the client.
pub(crate) fn can_be_installed() -> bool {
    jars::can_be_fetched() && find_python().is_some()
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
    command.env(HOME, KAFKA.home(cancel)?).env(PYTHON, python(cancel)?);
    Ok(())
}

fn find_python() -> Option<&'static str> {
    python::find(&["python3"], "sys.version_info >= (3, 9)")
}
