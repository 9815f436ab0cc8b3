//! Pools: asking for units, and the one task of this process that decides.
//!
//! Whoever asks sends a command to the decider and waits for the answer. The decider gathers what has come in the
//! meantime and decides about all of it in one pass, which is one transaction: many requests share one commit. Several
//! processes may do so on one database; the rows of the pools keep them apart.
//!
//! Reading order: [`ask`] (what is asked), [`pools`] (the handle), [`decider`] (the task), [`watch`] (those who wait),
//! [`hold`] (units that this process uses itself), [`keeper`] (what is old is
//! forgotten), [`probe`] (whether somebody who was not heard of still uses its units), [`metering`], [`gauge`] and [`emf`]
//! (what is counted and measured).

pub mod ask;
pub mod hold;
pub mod pools;

pub mod keeper;
pub mod probe;

mod decider;
mod watch;

pub mod emf;
pub mod gauge;
pub mod metering;
pub(crate) mod metrics;

pub mod error;

pub use ask::{Ask, AskPart};
pub use error::PoolError;
pub use hold::Hold;
pub use metering::Sums;
pub(crate) use pools::PoolsOnDemand;
pub use pools::{PoolOptions, Pools};
pub use probe::{Probe, ProbeError};
