//! Profiles: the template of a composition, and the requirements for its output file.

use super::object;
use crate::api::{Body, List, Read};
use crate::mutation::Caller;
use crate::problem::{Problem, ProblemBody};
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tidemill_api::Page;
use tidemill_api::render::{Changed, Items, RenderProfile};
use tidemill_domain::code::Code;
use tidemill_domain::render::Profile;

fn checked((number, profile): (usize, Value)) -> Result<Profile, Problem> {
    let composition = profile["composition"].as_str().unwrap_or_default().to_owned();
    let bad = |why: String| {
        let detail = format!("profile {number} ({composition:?}): {why}");
        Problem::new(Code::BadProfile, detail, "correct it and send all profiles again")
    };
    let profile: Profile = serde_json::from_value(profile).map_err(|error| bad(error.to_string()))?;
    profile.check().map_err(|wrong| bad(wrong.to_string()))?;
    Ok(profile)
}

/// List profiles.
#[utoipa::path(get, path = "/api/v1/render-profiles", operation_id = "list_render_profiles", responses((status = 200, body = Page<RenderProfile>)))]
pub(crate) async fn list(Read(mut tx): Read) -> List<Profile> {
    let profiles = tx.renders().profiles().await?;
    Ok(Json(Page::whole(profiles)))
}

/// Import profiles, all or none. Existing profiles of the same compositions are replaced.
#[utoipa::path(post, path = "/api/v1/render-profiles", operation_id = "import_render_profiles", request_body = Items<RenderProfile>, responses((status = 200, body = Changed), (status = 400, body = ProblemBody)))]
pub(crate) async fn save(caller: Caller, Body(body): Body<Items<Value>>) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/render-profiles {}", json!(body));
    let numbered = (1_usize..).zip(body.items);
    let profiles: Vec<Profile> = numbered.map(checked).collect::<Result<_, _>>()?;
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
pub(crate) async fn remove(caller: Caller, Path(name): Path<String>) -> Result<Response, Problem> {
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
