//! Statements on the outbox.

mod reading;
mod relay;

use super::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

pub(crate) use reading::ReadNew;
