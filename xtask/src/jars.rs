//! Jars that Maven fetches once for the tests: those of Apache Kafka and of Spring Batch.

use crate::cache::Kept;
use crate::process::run_in_terminal;
use crate::supervise::Cancel;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::account::find_program;

/// What Maven is to do with a pom.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// The jars of one pom.
pub(crate) struct Jars {
    /// Also the beginning of its folder in the cache.
    name: &'static str,
    /// Names the jars and their versions.
    pom: &'static str,
    pom_file: &'static str,
    /// Whose version the folder has.
    artifact: &'static str,
    /// How the jar begins without which the rest is of no use.
    main: &'static str,
    size: &'static str,
}

pub(crate) const KAFKA: Jars = Jars {
    name: "kafka",
    pom: include_str!("../kafka/pom.xml"),
    pom_file: concat!(env!("CARGO_MANIFEST_DIR"), "/kafka/pom.xml"),
    artifact: "kafka_2.13",
    main: "kafka-clients-",
    size: "about 50 MB",
};

pub(crate) const SPRING: Jars = Jars {
    name: "spring-batch",
    pom: include_str!("../spring/pom.xml"),
    pom_file: concat!(env!("CARGO_MANIFEST_DIR"), "/spring/pom.xml"),
    artifact: "spring-batch-core",
    main: "spring-batch-core-",
    size: "about 14 MB",
};

/// Whether this machine has what is needed: a Java that can compile, and Maven.
pub(crate) fn can_be_fetched() -> bool {
    ["java", "javac", "mvn"].iter().all(|program| find_program(program).is_some())
}

impl Jars {
    /// The folder of the jars, which are fetched if they are not there yet.
    pub(crate) fn home(&self, cancel: &Cancel) -> Result<PathBuf, String> {
        let Self { name, artifact, .. } = self;
        let version = self.version().ok_or_else(|| format!("the pom names no version of {artifact}"))?;
        let kept = Kept {
            name: &format!("{name} {version}"),
            folder: &format!("{name}-{version}"),
            size: self.size,
        };
        let folder = kept.ready(
            |folder| self.is_in(folder),
            |folder| {
                let maven = find_program("mvn").ok_or_else(|| format!("the jars of {name} need Maven"))?;
                let mut maven = Command::new(maven);
                maven.args([
                    "--quiet",
                    "--batch-mode",
                    "--file",
                    self.pom_file,
                    COPY,
                    "-DincludeScope=runtime",
                ]);
                maven.arg(format!("-DoutputDirectory={}", folder.join("jars").display()));
                run_in_terminal(maven, cancel)?;
                if self.is_in(folder) { Ok(()) } else { Err(format!("Maven has brought no jars of {name}")) }
            },
        )?;
        Ok(folder.join("jars"))
    }

    fn version(&self) -> Option<&'static str> {
        let (_, behind) = self.pom.split_once(&format!("<artifactId>{}</artifactId>", self.artifact))?;
        let (_, behind) = behind.split_once("<version>")?;
        Some(behind.split_once("</version>")?.0)
    }

    fn is_in(&self, folder: &Path) -> bool {
        let Ok(entries) = fs::read_dir(folder.join("jars")) else { return false };
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(self.main))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_pom() {
        for jars in [KAFKA, SPRING] {
            assert!(jars.version().unwrap().split('.').all(|part| part.parse::<u32>().is_ok()));
        }
    }

    #[test]
    fn the_jars_are_there_when_the_main_one_is() {
        for jars in [KAFKA, SPRING] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("jars")).unwrap();

            let before = jars.is_in(folder.path());
            fs::write(folder.path().join(format!("jars/{}4.3.0.jar", jars.main)), "").unwrap();

            assert_eq!((before, jars.is_in(folder.path())), (false, true));
        }
    }
}
