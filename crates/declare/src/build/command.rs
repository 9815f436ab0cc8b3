//! Command steps: a program to run.

use super::NotYet;
use crate::model::CommandFile;
use tidemill_engine::job::Step;

/// The step.
pub(super) fn step(_name: &str, _file: &CommandFile) -> Result<Step, NotYet> {
    Err(NotYet("command steps"))
}
