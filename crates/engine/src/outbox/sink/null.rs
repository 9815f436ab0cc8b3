//! The sink that delivers to nobody, for measuring what all the rest costs. It has no name that people could choose.

use super::super::publisher::{Outcome, Publisher, Publishing};
use tidemill_domain::outbox::Record;

/// Delivers to nobody, and says that it did.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Publisher for NullSink {
    fn name(&self) -> String {
        "null".to_owned()
    }

    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        Box::pin(std::future::ready(vec![Outcome::Delivered; records.len()]))
    }
}
