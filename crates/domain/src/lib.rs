//! The rules of Tidemill, as pure and total functions.
//!
//! Nothing here awaits, reads a clock, draws a random number, logs, or knows a database: whatever a rule
//! needs is an argument, and its answer is a value. That is why every rule can be tested by properties.
//!
//! Reading order: [`words`] and `newtype` (how enums and ids are declared), [`time`], [`process`] and [`lease`] (the
//! one idea under all pillars), [`step_back`] (when the clock goes back), then [`backoff`] and [`poll`] (when to try
//! again), [`duration`] and [`nearest`] (what people write), then [`item`], [`job`] and [`schedule`] (batch work), [`hint`] (what a statement asks of a database) and
//! [`pool`] (who may start), [`outbox`] and [`inbox`] (what is told to others, and what others have told), [`render`]
//! (videos that outside programs make), then [`alert`] (when people are told), [`connection`] (who may connect when
//! places are scarce), [`access`] (who may do what) and [`action`] (what operators do), then [`audit`], [`code`] and [`error_chain`] (what people see).

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
