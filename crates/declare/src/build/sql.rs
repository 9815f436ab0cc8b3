//! SQL steps: statements in one transaction.

use super::NotYet;
use crate::model::SqlFile;
use tidemill_engine::job::Step;

/// The step.
pub(super) fn step(_name: &str, _file: &SqlFile) -> Result<Step, NotYet> {
    Err(NotYet("SQL steps"))
}
