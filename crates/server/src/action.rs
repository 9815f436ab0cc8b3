//! An action that a program adds to its dashboard, beyond what every server can do. The server knows what it is called and
//! who may; the program knows what it does. Where no program gives one, there is neither a button nor a route.

use std::fmt::Debug;
use std::pin::Pin;

/// What people can have done by a button on the overview. They need the permission to administer.
pub trait ExtraAction: Debug + Send + Sync {
    /// Its name in the audit log, such as `demo.kill`.
    fn name(&self) -> &'static str;

    fn title(&self) -> &'static str;

    /// What becomes of it, in a sentence beside the button.
    fn explanation(&self) -> &'static str;

    /// Why it cannot be done now, in a sentence; none when it can be tried.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Does it. It must be quick: whoever has asked waits for it, and so does a transaction.
    fn perform(&self) -> Performing<'_>;
}

/// What came of it, once it is done.
pub type Performing<'a> = Pin<Box<dyn Future<Output = Result<Performed, CannotPerform>> + Send + 'a>>;

/// What was done, for the audit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Performed {
    pub object: String,
    /// What, in a sentence.
    pub story: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct CannotPerform {
    /// Why not.
    pub why: String,
    pub remedy: String,
}
