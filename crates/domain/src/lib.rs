//! The rules of Tidemill, as pure and total functions.
//!
//! Nothing here awaits, reads a clock, draws a random number, logs, or knows a database. Rules get all they need as
//! arguments and return values, so properties can test them.
//!
//! Reading order: [`words`] and `newtype` (how enums and ids are declared), [`time`], [`process`] and [`lease`] (used by
//! all pillars), [`step_back`] (when the clock goes back), [`backoff`] and [`poll`] (when to try again), [`duration`] and
//! [`nearest`] (user input), [`item`], [`job`] and [`schedule`] (batch jobs), [`hint`] and [`pool`] (scarce units),
//! [`outbox`] and [`inbox`] (events), [`render`] (videos), [`alert`], [`connection`], [`access`] and [`action`]
//! (operators), [`audit`], [`code`] and [`error_chain`] (errors).

mod newtype;
pub mod words;

pub mod time;

pub mod lease;
pub mod process;
pub mod step_back;

pub mod backoff;
pub mod poll;

pub mod duration;
pub mod nearest;

pub mod item;
pub mod job;
pub mod schedule;

pub mod hint;
pub mod pool;

pub mod inbox;
pub mod outbox;

pub mod render;

pub mod alert;

pub mod connection;

pub mod access;
pub mod action;
pub mod audit;
pub mod code;
pub mod error_chain;
