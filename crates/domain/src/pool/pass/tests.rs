//! One pass at a time: what is asked, what is decided, what is told.
