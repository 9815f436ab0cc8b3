//! Decisions: an expression whose text is matched like an exit code.

use super::names::ParameterNames;
use crate::expression::{Expression, Scope};
use crate::model::Names;
use serde_json::json;
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Value};
use tidemill_domain::job::Counters;
use tidemill_engine::job::Decision;

/// The expression sees `parameters`, `context` (of the job) and `last` (the previous step; null at the beginning).
pub(super) fn decision(
    expression: Arc<Expression>,
    declared: ParameterNames,
) -> impl Fn(&Decision<'_>) -> Result<String, ItemError> + Send + Sync + 'static {
    move |decision| {
        let parameters = declared.values(decision.parameters);
        let context =
            decision.job_context.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
        let context = Value::Json(serde_json::Value::Object(context));
        let others = Names::from([("context".to_owned(), context), ("last".to_owned(), last(decision))]);
        expression.answer(&Scope { row: None, parameters: &parameters, others: &others })
    }
}

/// Counters of a flow or a split are null and not 0, so that an expression that relies on them fails.
fn last(decision: &Decision<'_>) -> Value {
    let Some((status, exit)) = decision.last else { return Value::Null };
    let counters = decision.counters;
    Value::Json(json!({
        "status": status.as_str(),
        "exit_code": exit.code,
        "read": counters.map(|counters| counters.read),
        "written": counters.map(|counters| counters.write),
        "filtered": counters.map(|counters| counters.filter),
        "skipped": counters.map(Counters::skips),
    }))
}
