//! One file for each command.

pub(crate) mod bench;
pub(crate) mod chaos;
pub(crate) mod ci;
pub(crate) mod dist;
pub(crate) mod help;
pub(crate) mod size;
pub(crate) mod test;
