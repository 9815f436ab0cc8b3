//! Statements on the outbox.

mod lag;
mod notice;
mod partition;
mod place;
mod restore;
mod retention;
mod audit;
mod event;

pub(crate) use event::EventFilterRow;
mod reading;
mod relay;

use super::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

pub(crate) use reading::ReadNew;
