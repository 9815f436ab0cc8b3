//! Texts with `${name}` in them.
