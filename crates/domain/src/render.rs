//! Renders: from a row of `render_queue` to a verified file on the NAS, through nexrender.

pub mod answer;
pub mod attempt;
pub mod blank;
pub mod check;
pub mod clock;
pub mod document;
pub mod edit;
pub mod failure;
pub mod field;
pub mod form;
pub mod gfx;
pub mod lifecycle;
pub mod mapping;
pub mod name;
pub mod notify;
pub mod order;
pub mod output;
pub mod path;
pub mod path_map;
pub mod phase;
pub mod polling;
pub mod profile;
pub mod rate;
pub mod remedy;
pub mod retention;
pub mod retry_rules;
pub mod selection;
pub mod sheet;
pub mod target;
pub mod template;
pub mod uid;
pub mod wait;

/// Of a composition, and of the item that a render is for.
pub const LABEL_CHARS_MAX: usize = 500;

pub use answer::Report;
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
pub use target::Targets;
pub use uid::{RenderId, Uid};
