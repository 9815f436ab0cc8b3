//! Field mappings: which layer of a template shows which field.

use super::object;
use crate::api::{Body, List, QueryString, Read};
use crate::mutation::Caller;
use crate::problem::{Problem, ProblemBody};
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tidemill_api::Page;
use tidemill_api::render::{Changed, DeleteMapping, FieldMapping, Items, ListMappings};
use tidemill_domain::code::Code;
use tidemill_domain::render::mapping::{self, MappingRow};

/// List field mappings.
#[utoipa::path(get, path = "/api/v1/render-mappings", operation_id = "list_field_mappings", params(ListMappings), responses((status = 200, body = Page<FieldMapping>)))]
pub(crate) async fn list(
    QueryString(query): QueryString<ListMappings>,
    Read(mut tx): Read,
) -> List<MappingRow> {
    let rows = tx.renders().field_mappings(query.composition.as_deref()).await?;
    Ok(Json(Page::whole(rows)))
}

/// Import field mappings, all or none. Existing mappings of the same fields are replaced.
#[utoipa::path(post, path = "/api/v1/render-mappings", operation_id = "import_field_mappings", request_body = Items<FieldMapping>, responses((status = 200, body = Changed), (status = 400, body = ProblemBody)))]
pub(crate) async fn save(caller: Caller, Body(body): Body<Items<MappingRow>>) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/render-mappings {}", json!(body));
    let rows = body.items;
    mapping::read(&rows).map_err(|bad| {
        Problem::new(bad.code(), bad.to_string(), "correct these rows; the first row is number 1")
    })?;
    for row in &rows {
        caller.principal.check_scope(&object(Some(&row.composition)))?;
    }
    caller
        .run_finding(&what, async |tx| {
            let count = tx.renders().save_field_mappings(&rows, &caller.principal.actor()).await?;
            Ok((StatusCode::OK, json!(Changed { count })))
        })
        .await
}

/// Delete the field mappings of a composition, or one of them.
#[utoipa::path(delete, path = "/api/v1/render-mappings/{name}", operation_id = "delete_field_mappings", params(("name" = String, Path, description = "The composition"), DeleteMapping), responses((status = 200, body = Changed), (status = 404, body = ProblemBody)))]
pub(crate) async fn remove(
    caller: Caller,
    Path(name): Path<String>,
    QueryString(query): QueryString<DeleteMapping>,
) -> Result<Response, Problem> {
    let what = format!("DELETE /api/v1/render-mappings/{}", json!([name, query.field]));
    caller
        .run(&object(Some(&name)), &what, async |tx| {
            let count = tx
                .renders()
                .delete_field_mappings(&name, query.field.as_deref(), &caller.principal.actor())
                .await?;
            if count == 0 {
                let detail = format!("the composition {name:?} has no such mapping");
                return Err(Problem::new(Code::UnknownComposition, detail, "list the mappings"));
            }
            Ok((StatusCode::OK, json!(Changed { count })))
        })
        .await
}
