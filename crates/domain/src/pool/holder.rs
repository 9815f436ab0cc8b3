//! The holder of units: one task of one run. It includes the DAG, because two DAGs may have runs with the same id.

use serde::{Deserialize, Serialize};
use std::fmt;

/// In characters; Airflow's own limit.
pub const LONGEST_NAME: usize = 250;

/// In UTF-8: three of them have to fit into an index of PostgreSQL.
const LONGEST_BYTES: usize = 600;

/// The key of a request within a pool.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Holder {
    dag_id: String,
    run_id: String,
    task: String,
    map_index: i32,
}

crate::getters!(Holder {
    /// The DAG, the job, or whatever runs repeatedly.
    &dag_id: str,
    &run_id: str,
    /// Empty for the whole run.
    &task: str,
    /// -1 for a task that is not mapped.
    map_index: i32,
});

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{part} must be {least} to {LONGEST_NAME} characters ({LONGEST_BYTES} bytes) without control characters"
)]
pub struct BadHolder {
    pub part: &'static str,
    least: usize,
}

impl Holder {
    /// A whole run has an empty task and the map index -1.
    pub fn new(dag_id: &str, run_id: &str, task: &str, map_index: i32) -> Result<Self, BadHolder> {
        for (part, text, least) in [("dag_id", dag_id, 1), ("run_id", run_id, 1), ("task", task, 0)] {
            let length = text.chars().count();
            let is_bounded = (least..=LONGEST_NAME).contains(&length) && text.len() <= LONGEST_BYTES;
            if !is_bounded || text.chars().any(char::is_control) {
                return Err(BadHolder { part, least });
            }
        }
        let (dag_id, run_id, task) = (dag_id.to_owned(), run_id.to_owned(), task.to_owned());
        Ok(Self { dag_id, run_id, task, map_index })
    }

    pub fn run(dag_id: &str, run_id: &str) -> Result<Self, BadHolder> {
        Self::new(dag_id, run_id, "", -1)
    }

    pub fn is_of(&self, dag_id: &str, run_id: &str) -> bool {
        self.dag_id == dag_id && self.run_id == run_id
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.dag_id, self.run_id)?;
        if !self.task.is_empty() {
            write!(f, "/{}", self.task)?;
        }
        if self.map_index >= 0 {
            write!(f, "[{}]", self.map_index)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_run_id_of_two_dags_is_two_holders() {
        let run = "scheduled__2026-11-15T00:05:00+00:00";
        assert_ne!(Holder::run("a", run), Holder::run("b", run));
        assert_eq!(Holder::new("a", "r", "t", 3).unwrap().to_string(), "a/r/t[3]");
    }

    #[test]
    fn names_are_bounded() {
        assert!(Holder::run("", "r").is_err());
        assert!(Holder::run("d", &"r".repeat(251)).is_err());
        assert!(Holder::run("d", &"\u{1f30a}".repeat(151)).is_err(), "too many bytes for an index");
        assert!(Holder::run("d\n", "r").is_err());
        assert_eq!(
            Holder::new("d", "r", "\u{7}", 0).unwrap_err().to_string(),
            "task must be 0 to 250 characters (600 bytes) without control characters"
        );
    }
}
