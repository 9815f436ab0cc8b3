//! Statements on the outbox.

mod detail;
mod event;
mod exception;
mod reading;
mod relay;

mod lag;
mod notice;
mod partition;
mod place;
mod restore;
mod retention;

mod audit;

use super::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

pub(crate) use event::EventFilterRow;
pub(crate) use exception::{EditColumns, ExceptionChange, ExceptionFilterRow, NewExceptionRow};
pub(crate) use reading::{Most, ReadNew, Size, Span};
