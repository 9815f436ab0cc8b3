//! Profiles: where the template of a composition is, and what its file has to be.

use super::mapping::Changed;
use super::object;
use crate::api::Body;
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use tidemill_domain::code::Code;
use tidemill_domain::duration;
use tidemill_domain::render::Profile;
use tidemill_domain::render::profile::{Audio, Decoding};
use utoipa::ToSchema;

/// Whether a file has sound.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileAudio {
    /// It must not.
    None,
    /// It must, with 48 kHz.
    Required,
    /// As it likes.
    #[default]
    Any,
}

/// Whether every frame of a file is decoded before it is published.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileDecoding {
    /// It is.
    #[default]
    On,
    /// It is not.
    Off,
}

/// What is known of a composition.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenderProfile {
    /// What rows and mappings call it.
    composition: String,
    /// What the template calls it, where that is something else.
    name_in_template: Option<String>,
    /// The After Effects project, as nodes see it.
    template: String,
    /// The output module of After Effects.
    output_module: String,
    /// The render settings of After Effects, if not its default ones.
    settings_template: Option<String>,
    /// The ending of its files; `mp4` when not given.
    extension: Option<String>,
    /// What ffprobe calls the container; `mp4` when not given.
    container: Option<String>,
    /// Its width in pixels.
    width: u32,
    /// Its height in pixels.
    height: u32,
    /// Its frames per second, such as `25` or `30000/1001`.
    rate: String,
    /// What its video may be encoded with; `h264` when not given.
    codecs: Option<BTreeSet<String>>,
    /// How its pixels may be stored; `yuv420p` when not given, anything when empty.
    pixel_formats: Option<BTreeSet<String>>,
    /// How long it is, if it always is, such as `5s`.
    duration: Option<String>,
    /// The least bytes that its file has; 1000 when not given.
    bytes_min: Option<u64>,
    /// Whether it has sound; `any` when not given.
    #[serde(default)]
    audio: ProfileAudio,
    /// Whether it is decoded; `on` when not given.
    #[serde(default)]
    decoding: ProfileDecoding,
}

/// Profiles.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenderProfiles {
    /// By composition.
    items: Vec<RenderProfile>,
}

impl From<Profile> for RenderProfile {
    fn from(profile: Profile) -> Self {
        Self {
            composition: profile.composition,
            name_in_template: profile.name_in_template,
            template: profile.template,
            output_module: profile.output_module,
            settings_template: profile.settings_template,
            extension: Some(profile.extension),
            container: Some(profile.container),
            width: profile.width,
            height: profile.height,
            rate: profile.rate.to_string(),
            codecs: Some(profile.codecs),
            pixel_formats: Some(profile.pixel_formats),
            duration: profile.duration.map(duration::show),
            bytes_min: Some(profile.bytes_min),
            audio: match profile.audio {
                Audio::None => ProfileAudio::None,
                Audio::Required => ProfileAudio::Required,
                Audio::Any => ProfileAudio::Any,
            },
            decoding: match profile.decoding {
                Decoding::On => ProfileDecoding::On,
                Decoding::Off => ProfileDecoding::Off,
            },
        }
    }
}

impl RenderProfile {
    /// As the rules have it, checked. What is not given has the default that files have.
    fn checked(self, number: usize) -> Result<Profile, Problem> {
        let composition = self.composition.clone();
        let bad = |why: String| {
            let detail = format!("profile {number} ({composition:?}): {why}");
            Problem::new(Code::BadProfile, detail, "correct it, and send all of them again")
        };
        let mut fields = json!(self);
        if let Some(fields) = fields.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let profile: Profile = serde_json::from_value(fields).map_err(|error| bad(error.to_string()))?;
        profile.check().map_err(|wrong| bad(wrong.to_string()))?;
        Ok(profile)
    }
}

/// The profiles.
#[utoipa::path(get, path = "/api/v1/render-profiles", responses((status = 200, body = RenderProfiles)))]
pub(crate) async fn list(Given(state): Given<State>) -> Result<Json<RenderProfiles>, Problem> {
    let mut tx = state.read().await?;
    let profiles = tx.renders().profiles().await?;
    Ok(Json(RenderProfiles { items: profiles.into_iter().map(RenderProfile::from).collect() }))
}

/// Brings profiles, all or none; those of the same compositions are replaced.
#[utoipa::path(post, path = "/api/v1/render-profiles", request_body = RenderProfiles, responses((status = 200, body = Changed), (status = 400, body = crate::problem::ProblemBody)))]
pub(crate) async fn save(caller: Caller, Body(body): Body<RenderProfiles>) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/render-profiles {}", json!(body));
    let numbered = (1_usize..).zip(body.items);
    let profiles: Vec<Profile> =
        numbered.map(|(number, profile)| profile.checked(number)).collect::<Result<_, _>>()?;
    let mut seen = BTreeSet::new();
    for profile in &profiles {
        caller.principal.check_scope(&object(Some(&profile.composition)))?;
        if !seen.insert(&profile.composition) {
            let detail = format!("there are two profiles of {:?}", profile.composition);
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

/// Forgets a profile.
#[utoipa::path(delete, path = "/api/v1/render-profiles/{name}", params(("name" = String, Path, description = "The composition")), responses((status = 200, body = Changed), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn remove(caller: Caller, Path(name): Path<String>) -> Result<Response, Problem> {
    let what = format!("DELETE /api/v1/render-profiles/{}", json!(name));
    caller
        .run(&object(Some(&name)), &what, async |tx| {
            if !tx.renders().delete_profile(&name, &caller.principal.actor()).await? {
                let detail = format!("there is no profile of the composition {name:?}");
                return Err(Problem::new(Code::UnknownComposition, detail, "list the profiles"));
            }
            Ok((StatusCode::OK, json!(Changed { count: 1 })))
        })
        .await
}
