//! Decisions: an expression whose text is matched like an exit code.

use super::names::Declared;
use crate::expression::{Expression, Scope};
use crate::model::Names;
use serde_json::json;
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Value};
use tidemill_engine::job::Decision;

/// The closure of a decision. The expression sees `parameters`, `context` (what the job remembers) and `last` (how the
/// step before it ended: `status` and `exit_code`; null at the beginning).
pub(super) fn decision(
    expression: Arc<Expression>,
    declared: Declared,
) -> impl Fn(&Decision<'_>) -> Result<String, ItemError> + Send + Sync + 'static {
    move |decision| {
        let parameters = declared.values(decision.parameters);
        let context =
            decision.job_context.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
        let last = decision.last.map_or(Value::Null, |(status, exit)| {
            Value::Json(json!({ "status": status.as_str(), "exit_code": exit.code }))
        });
        let context = Value::Json(serde_json::Value::Object(context));
        let others = Names::from([("context".to_owned(), context), ("last".to_owned(), last)]);
        expression.answer(&Scope { row: None, parameters: &parameters, others: &others })
    }
}
