//! Partitions: a step that is divided.

use super::NotYet;
use crate::model::PartitionsFile;
use tidemill_engine::job::Step;

/// The step, divided.
pub(super) fn partitioned(_step: Step, _file: &PartitionsFile) -> Result<Step, NotYet> {
    Err(NotYet("partitions"))
}
