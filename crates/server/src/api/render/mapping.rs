//! Field mappings: on which layers of a template the fields of renders are shown.

use super::object;
use crate::api::{Body, QueryString};
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_domain::code::Code;
use tidemill_domain::render::mapping::{self, Kind, MappingRow, Unused};
use utoipa::{IntoParams, ToSchema};

/// What a field becomes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// A text on a layer.
    #[default]
    Text,
    /// Another image in the place of a layer.
    Image,
    /// An expression that After Effects computes.
    Expression,
}

/// What becomes of a field that a render does not have.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnusedField {
    /// Its text is emptied.
    Clear,
    /// The template decides.
    Leave,
}

/// Where one field is shown.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldMapping {
    /// The composition that is rendered.
    composition: String,
    /// The field: `Slot 1 - name`, `Single - table_id` or `Flag 1`.
    field_name: String,
    /// The layer.
    layer_name: String,
    /// The composition that has the layer, where it is another one.
    layer_composition: Option<String>,
    /// The property of the layer; `Source Text` when not given.
    property: Option<String>,
    /// What it becomes; `text` when not given.
    #[serde(default)]
    kind: FieldKind,
    /// Of an expression, its text; of an image, the folder of those that are given by name only.
    source: Option<String>,
    /// Whether a render may go without it.
    #[serde(default)]
    optional: bool,
    /// What becomes of it then; texts are cleared when not given.
    unused: Option<UnusedField>,
}

/// Rows of field mappings.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldMappings {
    /// By composition and field.
    items: Vec<FieldMapping>,
}

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListMappings {
    /// Only those of this composition.
    composition: Option<String>,
}

/// What to forget.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ForgetMapping {
    /// Only the row of this field.
    field: Option<String>,
}

/// How many rows were brought or forgotten.
#[derive(Debug, Serialize, ToSchema)]
pub struct Changed {
    /// So many.
    pub(super) count: u64,
}

impl From<MappingRow> for FieldMapping {
    fn from(row: MappingRow) -> Self {
        Self {
            composition: row.composition,
            field_name: row.field_name,
            layer_name: row.layer_name,
            layer_composition: row.layer_composition,
            property: row.property,
            kind: match row.kind {
                Kind::Text => FieldKind::Text,
                Kind::Image => FieldKind::Image,
                Kind::Expression => FieldKind::Expression,
            },
            source: row.source,
            optional: row.optional,
            unused: row.unused.map(|unused| match unused {
                Unused::Clear => UnusedField::Clear,
                Unused::Leave => UnusedField::Leave,
            }),
        }
    }
}

impl From<FieldMapping> for MappingRow {
    fn from(row: FieldMapping) -> Self {
        Self {
            composition: row.composition,
            field_name: row.field_name,
            layer_name: row.layer_name,
            layer_composition: row.layer_composition,
            property: row.property,
            kind: match row.kind {
                FieldKind::Text => Kind::Text,
                FieldKind::Image => Kind::Image,
                FieldKind::Expression => Kind::Expression,
            },
            source: row.source,
            optional: row.optional,
            unused: row.unused.map(|unused| match unused {
                UnusedField::Clear => Unused::Clear,
                UnusedField::Leave => Unused::Leave,
            }),
        }
    }
}

/// The field mappings.
#[utoipa::path(get, path = "/api/v1/render-mappings", params(ListMappings), responses((status = 200, body = FieldMappings)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListMappings>,
) -> Result<Json<FieldMappings>, Problem> {
    let mut tx = state.read().await?;
    let rows = tx.renders().field_mappings(asked.composition.as_deref()).await?;
    Ok(Json(FieldMappings { items: rows.into_iter().map(FieldMapping::from).collect() }))
}

/// Brings rows, all or none; those that are there for the same field are replaced.
#[utoipa::path(post, path = "/api/v1/render-mappings", request_body = FieldMappings, responses((status = 200, body = Changed), (status = 400, body = crate::problem::ProblemBody)))]
pub(crate) async fn save(caller: Caller, Body(body): Body<FieldMappings>) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/render-mappings {}", json!(body));
    let rows: Vec<MappingRow> = body.items.into_iter().map(MappingRow::from).collect();
    mapping::read(&rows)
        .map_err(|bad| Problem::new(bad.code(), bad.to_string(), "correct these rows, counted from 1"))?;
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

/// Forgets the rows of a composition, or one of them.
#[utoipa::path(delete, path = "/api/v1/render-mappings/{name}", params(("name" = String, Path, description = "The composition"), ForgetMapping), responses((status = 200, body = Changed), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn remove(
    caller: Caller,
    Path(name): Path<String>,
    QueryString(asked): QueryString<ForgetMapping>,
) -> Result<Response, Problem> {
    let what = format!("DELETE /api/v1/render-mappings/{}", json!([name, asked.field]));
    caller
        .run(&object(Some(&name)), &what, async |tx| {
            let count = tx
                .renders()
                .delete_field_mappings(&name, asked.field.as_deref(), &caller.principal.actor())
                .await?;
            if count == 0 {
                let detail = format!("nothing of the composition {name:?} is mapped so");
                return Err(Problem::new(Code::UnknownComposition, detail, "list the mappings"));
            }
            Ok((StatusCode::OK, json!(Changed { count })))
        })
        .await
}
