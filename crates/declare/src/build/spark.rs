//! Spark steps: an application that is submitted to Spark.

use super::NotYet;
use crate::model::SparkFile;
use tidemill_engine::job::Step;

/// The step.
pub(super) fn step(_name: &str, _file: &SparkFile) -> Result<Step, NotYet> {
    Err(NotYet("Spark steps"))
}
