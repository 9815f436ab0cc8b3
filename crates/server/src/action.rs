//! An action that a program adds to its dashboard. Without one there is neither a button nor a route.

use std::fmt::Debug;
use std::pin::Pin;

/// A button on the overview. It needs the permission `administer`.
pub trait ExtraAction: Debug + Send + Sync {
    /// Its name in the audit log, such as `demo.kill`.
    fn name(&self) -> &'static str;

    fn title(&self) -> &'static str;

    /// A sentence beside the button.
    fn explanation(&self) -> &'static str;

    /// Why it is not possible now, as a sentence.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Must be quick, because a transaction waits for it.
    fn perform(&self) -> Performing<'_>;
}

pub type Performing<'a> = Pin<Box<dyn Future<Output = Result<Performed, CannotPerform>> + Send + 'a>>;

/// For the audit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Performed {
    pub object: String,
    /// A sentence.
    pub story: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct CannotPerform {
    pub why: String,
    pub remedy: String,
}
