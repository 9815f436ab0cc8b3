//! Expressions: what `filter`, `map` and `decide` compute, in CEL.
