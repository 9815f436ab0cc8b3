//! Statements on the outbox.

mod event;

pub(crate) use event::EventFilterRow;
mod reading;
mod relay;

use super::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

pub(crate) use reading::ReadNew;
