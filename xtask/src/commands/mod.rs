//! One file for each command.

pub(crate) mod ci;
pub(crate) mod help;
pub(crate) mod test;
