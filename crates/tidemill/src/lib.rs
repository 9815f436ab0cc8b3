//! The face of Tidemill: the library that programs are built on, and the command line.
//!
//! A program of your own has the whole command line in one line:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     tidemill::App::new().run()
//! }
//! ```
//!
//! The stock binary is exactly that. Start reading at [`App`] in `app.rs`; each command is one file in
//! `commands/`.

pub mod app;
pub mod config;

mod commands;
mod context;
mod output;
mod report;
mod telemetry;

pub use app::App;
pub use tidemill_domain::code::{Code, Exit};
pub use tidemill_domain::{lease::LeaseKey, lease::Term, time};
pub use tidemill_engine::{EngineError, HeldLease, Process, ProcessOptions, SystemClock};
pub use tidemill_store::{Store, StoreError, StoreOptions, Tx};

/// What a program usually needs.
pub mod prelude {
    pub use crate::{App, EngineError, HeldLease, LeaseKey, Process, ProcessOptions, Store, Term, Tx};
}
