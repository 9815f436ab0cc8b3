//! Renders that one request changes together, and changes of priority.

use crate::shapes;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::order::OrderRefusal;

shapes! {
    /// Filters renders. At least one condition is needed; those that are left out match every render that the action can
    /// change. A retry without a status takes only those that failed.
    #[derive(Default)]
    pub struct RenderMatch in body {
        status: Option<String>,
        composition: Option<String>,
        /// Name of the worker.
        worker: Option<String>,
        /// Day of the broadcast.
        date: Option<String>,
        /// The batch in which they were ordered.
        batch: Option<i64>,
        /// Text in the composition, the cue item or the error.
        text: Option<String>,
        /// Only those that are past their deadline and have not ended.
        #[serde(default)]
        late: bool,
    }

    /// Request to cancel or retry renders: `ids` or a `filter`, at most 1000 renders.
    #[schema(example = json!({ "reason": "nexrender is back", "filter": { "composition": "lower-third", "date": "2026-11-15" } }))]
    pub struct ChangeRenders in body {
        /// Kept in the audit log.
        reason: String,
        ids: Option<Vec<i64>>,
        filter: Option<RenderMatch>,
    }

    /// Request to change the priority of a waiting render: `to` or `by`.
    #[schema(example = json!({ "by": 10 }))]
    pub struct PrioritizeRender in body {
        /// The new priority.
        to: Option<i32>,
        /// Added to the priority; negative numbers lower it.
        by: Option<i32>,
        /// Kept in the audit log.
        reason: Option<String>,
    }

    /// Request to change the priority of waiting renders: `to` or `by`, and `ids` or a `filter`, at most 1000 renders.
    #[schema(example = json!({ "by": 10, "filter": { "composition": "lower-third" } }))]
    pub struct PrioritizeRenders in body {
        /// The new priority.
        to: Option<i32>,
        /// Added to the priority; negative numbers lower it.
        by: Option<i32>,
        /// Kept in the audit log.
        reason: Option<String>,
        ids: Option<Vec<i64>>,
        filter: Option<RenderMatch>,
    }

    /// Which renders were changed.
    #[derive(Default)]
    pub struct ChangedRenders {
        changed: Vec<i64>,
        refused: Vec<RefusedRender>,
        /// Those that were not tried, because the database failed after others were changed. Send them again.
        not_tried: Vec<i64>,
    }

    /// A render that was not changed.
    pub struct RefusedRender {
        id: i64,
        /// Why.
        detail: String,
        /// What to do instead.
        remedy: String,
    }
}

impl RefusedRender {
    /// Without a refusal there is no such render.
    pub fn new(id: RenderId, refusal: Option<OrderRefusal>) -> Self {
        let (detail, remedy) = match refusal {
            Some(refusal) => (refusal.to_string(), refusal.fix()),
            None => ("there is no such render".to_owned(), "see the list of renders"),
        };
        Self { id: id.get(), detail, remedy: remedy.to_owned() }
    }
}
