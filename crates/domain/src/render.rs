//! Renders: from a row of `render_queue` to a verified file on the NAS, through nexrender.
//!
//! Reading order: [`phase`] (where a render is), [`uid`] (under which name nexrender knows
//! it), [`remote`] and [`answer`] (what nexrender says), [`failure`] and [`retry_rules`] (what can go wrong, and what is done
//! about it), [`clock`] (when it is too late), [`lifecycle`] (what becomes of a render, whatever happens), [`attempt`] (how a
//! claim ends) and [`order`] (what people may do with it), [`wait`] (why it waits), [`polling`] (how often a worker looks);
//! then [`field`] and [`gfx`] (what is shown), [`mapping`] (where), [`rate`] and [`profile`] (of which composition), [`path`], [`path_map`] and [`uri`] (files, as
//! nodes and this host see them), [`document`] (the job for nexrender); [`name`] and [`output`] (where the file goes) and
//! [`check`] (whether it is a good one).

pub mod phase;

pub mod uid;

pub mod answer;
pub mod remote;

pub mod failure;
pub mod retry_rules;

pub mod attempt;
pub mod clock;
pub mod lifecycle;
pub mod order;
pub mod polling;
pub mod wait;

pub mod field;
pub mod gfx;
pub mod mapping;
pub mod profile;
pub mod rate;

pub mod path;
pub mod path_map;
pub mod uri;

pub mod document;

pub mod check;
pub mod name;
pub mod output;

/// Longest name of a composition, and of what a render is ordered for.
pub const LABEL_CHARS_MAX: usize = 500;

pub use check::{Probe, check};
pub use document::AllowList;
pub use failure::{Failure, Trouble};
pub use lifecycle::{Act, Concern, Decision, Event, Policy, Render, Work, decide};
pub use mapping::Mapping;
pub use output::BroadcastDate;
pub use path::NodePath;
pub use path_map::{LocalPath, PathMap};
pub use phase::{Phase, Progress, Status};
pub use profile::Profile;
pub use remote::Report;
pub use uid::{RenderId, Uid};
