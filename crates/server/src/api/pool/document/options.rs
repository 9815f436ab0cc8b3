//! What an installation may choose about the answers to the document's clients.

/// How the document's clients are answered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DocumentOptions {
    /// Whether `available` of a grant is counted up to the end of the pool, as the document does there and nowhere
    /// else, and not up to what is granted.
    pub compat_available: bool,
    /// What becomes of requests for a pool that does not exist.
    pub unknown: UnknownPool,
}

tidemill_domain::words! {
    /// What becomes of requests for a pool that does not exist.
    #[derive(Default)]
    pub enum UnknownPool {
        /// They are refused: a misspelt number must not open the door.
        #[default]
        Refuse = "refuse",
        /// They are let through without a lease, for those who protect some of their databases only.
        Allow = "allow",
    }
}
