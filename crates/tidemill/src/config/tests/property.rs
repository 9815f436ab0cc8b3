//! How the properties of the configuration make up their input.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Runs a property this often. A failure shows its smallest input, so none is written into the tree.
pub(in super::super) fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
}

/// A text of at most `longest` characters from `alphabet`. A character that stands there twice comes twice as
/// often.
pub(in super::super) fn text(alphabet: &'static str, longest: usize) -> impl Strategy<Value = String> {
    let alphabet: Vec<char> = alphabet.chars().collect();
    vec(select(alphabet), 0..=longest).prop_map(String::from_iter)
}
