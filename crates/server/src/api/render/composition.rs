//! Compositions: their field mappings (which layer of a template shows which field), and their profiles (the template, and the
//! requirements for the output file).

use super::object;
use crate::api::{Body, List, QueryString, Read};
use crate::mutation::Caller;
use crate::problem::{Problem, ProblemBody};
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tidemill_api::Page;
use tidemill_api::render::{Changed, DeleteMapping, FieldMapping, Items, ListMappings, RenderProfile};
use tidemill_domain::code::Code;
use tidemill_domain::render::mapping::{self, MappingRow};
use tidemill_domain::render::{Profile, Targets};

/// List field mappings.
#[utoipa::path(get, path = "/api/v1/render-mappings", operation_id = "list_field_mappings", params(ListMappings), responses((status = 200, body = Page<FieldMapping>)))]
pub(crate) async fn mappings(
    QueryString(query): QueryString<ListMappings>,
    Read(mut tx): Read,
) -> List<MappingRow> {
    let rows = tx.renders().field_mappings(query.composition.as_deref()).await?;
    Ok(Json(Page::whole(rows)))
}

/// Import field mappings, all or none. Existing mappings of the same fields are replaced.
#[utoipa::path(post, path = "/api/v1/render-mappings", operation_id = "import_field_mappings", request_body = Items<FieldMapping>, responses((status = 200, body = Changed), (status = 400, body = ProblemBody)))]
pub(crate) async fn save_mappings(
    caller: Caller,
    Body(body): Body<Items<MappingRow>>,
) -> Result<Response, Problem> {
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
pub(crate) async fn remove_mappings(
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

fn checked((number, profile): (usize, Value), targets: Option<&Targets>) -> Result<Profile, Problem> {
    let composition = profile["composition"].as_str().unwrap_or_default().to_owned();
    let bad = |why: String| {
        let detail = format!("profile {number} ({composition:?}): {why}");
        Problem::new(Code::BadProfile, detail, "correct it and send all profiles again")
    };
    let profile: Profile = serde_json::from_value(profile).map_err(|error| bad(error.to_string()))?;
    profile.check().map_err(|wrong| bad(wrong.to_string()))?;
    targets.map(|targets| targets.of(&profile)).transpose().map_err(|unknown| bad(unknown.to_string()))?;
    Ok(profile)
}

/// List profiles.
#[utoipa::path(get, path = "/api/v1/render-profiles", operation_id = "list_render_profiles", responses((status = 200, body = Page<RenderProfile>)))]
pub(crate) async fn profiles(Read(mut tx): Read) -> List<Profile> {
    let profiles = tx.renders().profiles().await?;
    Ok(Json(Page::whole(profiles)))
}

/// Import profiles, all or none. Existing profiles of the same compositions are replaced.
#[utoipa::path(post, path = "/api/v1/render-profiles", operation_id = "import_render_profiles", request_body = Items<RenderProfile>, responses((status = 200, body = Changed), (status = 400, body = ProblemBody)))]
pub(crate) async fn save_profiles(
    caller: Caller,
    Body(body): Body<Items<Value>>,
) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/render-profiles {}", json!(body));
    let targets = caller.state.inner().parts.render.targets.as_ref();
    let numbered = (1_usize..).zip(body.items);
    let profiles: Vec<Profile> = numbered.map(|one| checked(one, targets)).collect::<Result<_, _>>()?;
    let mut seen = BTreeSet::new();
    for profile in &profiles {
        caller.principal.check_scope(&object(Some(&profile.composition)))?;
        if !seen.insert(&profile.composition) {
            let detail = format!("there are two profiles for {:?}", profile.composition);
            return Err(Problem::new(Code::BadProfile, detail, "send one of them"));
        }
    }
    caller
        .run_finding(&what, async |tx| {
            let count = tx.renders().save_profiles(&profiles, &caller.principal.actor()).await?;
            Ok((StatusCode::OK, json!(Changed { count })))
        })
        .await
}

/// Delete a profile.
#[utoipa::path(delete, path = "/api/v1/render-profiles/{name}", operation_id = "delete_render_profile", params(("name" = String, Path, description = "The composition")), responses((status = 200, body = Changed), (status = 404, body = ProblemBody)))]
pub(crate) async fn remove_profile(caller: Caller, Path(name): Path<String>) -> Result<Response, Problem> {
    let what = format!("DELETE /api/v1/render-profiles/{}", json!(name));
    caller
        .run(&object(Some(&name)), &what, async |tx| {
            if !tx.renders().delete_profile(&name, &caller.principal.actor()).await? {
                let detail = format!("the composition {name:?} has no profile");
                return Err(Problem::new(Code::UnknownComposition, detail, "list the profiles"));
            }
            Ok((StatusCode::OK, json!(Changed { count: 1 })))
        })
        .await
}
