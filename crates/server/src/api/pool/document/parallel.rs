//! How parallel a batch wants to run, and who said so. There is one order: the request's number, then the hint in the
//! request or its batch spec, then the default of the pool.

use super::request::Acquire;
use std::num::NonZeroU32;

/// A degree, and where it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parallel {
    /// How many connections the batch opens.
    pub degree: NonZeroU32,
    /// Who said so.
    pub source: ParallelSource,
}

/// Who said how parallel a batch runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParallelSource {
    /// The field `parallel_hint`.
    Request,
    /// The text of a hint.
    Hint,
    /// Nobody; it is the pool's default.
    Pool,
}

impl Acquire {
    /// The degree of this request. `degree_of` reads it from the text of a hint, if the hint says one.
    pub fn parallel(
        &self,
        degree_of: impl FnOnce(&str) -> Option<NonZeroU32>,
        pool_default: NonZeroU32,
    ) -> Parallel {
        if let Some(degree) = self.parallel_hint {
            return Parallel { degree, source: ParallelSource::Request };
        }
        match self.hint.as_deref().and_then(degree_of) {
            Some(degree) => Parallel { degree, source: ParallelSource::Hint },
            None => Parallel { degree: pool_default, source: ParallelSource::Pool },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::pool::document::Request;
    use serde_json::{Value, json};

    /// The degree of a request with these fields, where a hint says what is written in it.
    fn degree(more: Value) -> (u32, ParallelSource) {
        let mut request = json!({ "action": "acquire", "dag_id": "d", "dag_run_id": "r", "src_db_id": 4 });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let Ok(Request::Acquire(acquire)) = Request::read(&request, None) else { panic!("{request}") };
        let parallel = acquire.parallel(|hint| hint.parse().ok(), NonZeroU32::new(2).unwrap());
        (parallel.degree.get(), parallel.source)
    }

    #[test]
    fn the_request_comes_before_the_hint_and_the_hint_before_the_pool() {
        let spec = json!({ "rsrcSpecData": { "hint": "16" } });

        let asked = json!({ "parallel_hint": "4", "hint": "8", "batch_spec": spec });
        assert_eq!(degree(asked), (4, ParallelSource::Request));
        assert_eq!(degree(json!({ "hint": "8", "batch_spec": spec })), (8, ParallelSource::Hint));
        assert_eq!(degree(json!({ "parallel_hint": null, "batch_spec": spec })), (16, ParallelSource::Hint));
        assert_eq!(degree(json!({ "hint": "", "batch_spec": spec })), (16, ParallelSource::Hint));
        assert_eq!(degree(spec), (16, ParallelSource::Hint));
        assert_eq!(degree(json!({ "hint": "/*+ FULL(A) */" })), (2, ParallelSource::Pool));
        assert_eq!(degree(json!({})), (2, ParallelSource::Pool));
    }
}
