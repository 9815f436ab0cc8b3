//! The rules of Tidemill, as pure and total functions.
//!
//! Nothing here awaits, reads a clock, draws a random number, logs, or knows a database. Rules get all they need as
//! arguments and return values, so properties can test them.

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
pub mod trace;
