//! Pools are made, changed, paused and removed.

use super::{PoolCapacity, find, named, object, shown, unknown};
use crate::api::Body;
use crate::mutation::Caller;
use crate::operate::{ActionRequest, Outcome, checked};
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::action::Action;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::duration;
use tidemill_domain::pool::settings::Capacity;
use tidemill_domain::pool::settings::{BadSettings, Pause};
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_store::Tx;
use tidemill_store::pool::Defined;
use utoipa::ToSchema;

/// Settings of a pool. Those that are not given stay as they are, and of a new pool have their defaults.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct PoolSettings {
    /// The number that callers know it by: the document's `src_db_id`. Null takes it away.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    external_id: Option<Option<i64>>,
    /// What kind of database it protects; `oracle` by default.
    db_type: Option<String>,
    /// How much there is of it.
    max_units: Option<u32>,
    /// Of that, how much may be in use, in percent; 95 by default.
    threshold_percent: Option<u8>,
    /// What a request gets that does not say how much it wants; 1 by default.
    default_units: Option<u32>,
    /// The least that a downgrade gives; 2 by default.
    min_units: Option<u32>,
    /// What is counted: `hint_units` (the default), `sessions`, `px` or `processes`.
    weight: Option<String>,
    /// Whether the database follows hints; true by default.
    hint_effective: Option<bool>,
    /// What a hint counts for that says "parallel" without a number; 16 by default.
    default_degree: Option<u32>,
    /// How many sets of servers a session may use; 2 by default.
    server_sets: Option<u8>,
    /// How it is given out: `halving` (the default) or `fifo`.
    policy: Option<String>,
    /// Other numbers of units at other times of day.
    capacity: Option<Vec<PoolCapacity>>,
    /// Where the clocks hang that those times are read from; UTC by default.
    zone: Option<String>,
    /// How long a holder that sends heartbeats may be silent; `15m` by default.
    lease_for: Option<String>,
    /// How long units are held at most; `1d` by default.
    max_hold: Option<String>,
    /// How long units are set aside for somebody who has not come back for them; `2m` by default.
    claim_for: Option<String>,
}

/// A pool that is to be made.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Its name.
    name: String,
    /// What is set about it; `max_units` has to be.
    #[serde(flatten)]
    settings: PoolSettings,
}

/// A change of a pool.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePool {
    /// Why, for those who wonder later.
    reason: Option<String>,
    /// What changes.
    #[serde(flatten)]
    settings: PoolSettings,
}

/// Null is not the same as nothing.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl PoolSettings {
    /// Only how much there is, how much of it may be in use, and how it is given out.
    pub(crate) fn of_capacity(max_units: u32, threshold_percent: u8, policy: &str) -> Self {
        let (max_units, threshold_percent) = (Some(max_units), Some(threshold_percent));
        Self { max_units, threshold_percent, policy: Some(policy.to_owned()), ..Self::default() }
    }

    /// These over `settings`.
    pub(crate) fn over(&self, mut settings: Settings) -> Result<Settings, Problem> {
        let number = |field, number: u32| NonZeroU32::new(number).ok_or_else(|| bad(field, "it is zero"));
        let length = |field, text: &str| -> Result<Duration, Problem> {
            duration::parse(text).map_err(|error| bad(field, error.to_string()))
        };
        if let Some(external_id) = self.external_id {
            settings.external_id = external_id;
        }
        if let Some(db_type) = &self.db_type {
            settings.db_type.clone_from(db_type);
        }
        settings.max_units = self.max_units.unwrap_or(settings.max_units);
        settings.threshold_percent = self.threshold_percent.unwrap_or(settings.threshold_percent);
        settings.hint_effective = self.hint_effective.unwrap_or(settings.hint_effective);
        settings.server_sets = self.server_sets.unwrap_or(settings.server_sets);
        if let Some(units) = self.default_units {
            settings.default_units = number("default_units", units)?;
        }
        if let Some(units) = self.min_units {
            settings.min_units = number("min_units", units)?;
        }
        if let Some(degree) = self.default_degree {
            settings.default_degree = number("default_degree", degree)?;
        }
        if let Some(weight) = &self.weight {
            settings.weight = read("weight", weight)?;
        }
        if let Some(policy) = &self.policy {
            settings.policy = read("policy", policy)?;
        }
        if let Some(zone) = &self.zone {
            settings.zone = read("zone", zone)?;
        }
        if let Some(capacity) = &self.capacity {
            let window = |capacity: &PoolCapacity| {
                let window = read("capacity", &capacity.window)?;
                Ok(Capacity { window, max_units: capacity.max_units })
            };
            settings.capacity = capacity.iter().map(window).collect::<Result<_, Problem>>()?;
        }
        if let Some(text) = &self.lease_for {
            settings.lease_for = length("lease_for", text)?;
        }
        if let Some(text) = &self.max_hold {
            settings.max_hold = length("max_hold", text)?;
        }
        if let Some(text) = &self.claim_for {
            settings.claim_for = length("claim_for", text)?;
        }
        settings.check().map_err(|BadSettings { field, why }| bad(field, why))?;
        Ok(settings)
    }
}

fn read<T: std::str::FromStr<Err: ToString>>(field: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: T::Err| bad(field, error.to_string()))
}

fn bad(field: &str, why: impl AsRef<str>) -> Problem {
    let detail = format!("{field}: {}", why.as_ref());
    Problem::new(Code::BadPoolSettings, detail, "correct the setting; /openapi.json describes it")
}

/// Makes a pool.
#[utoipa::path(post, path = "/api/v1/pools", request_body = CreatePool, responses((status = 201, body = super::Pool), (status = 400, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn create(caller: Caller, Body(body): Body<CreatePool>) -> Result<Response, Problem> {
    let name: PoolName = read("name", &body.name)?;
    let max_units = body.settings.max_units.ok_or_else(|| bad("max_units", "it is missing"))?;
    let settings = body.settings.over(Settings::new(name.clone(), max_units))?;
    let what = format!("POST /api/v1/pools {}", json!(body));
    caller
        .run(&object(&name), &what, async |tx| {
            defined(tx.pools().create(&settings, &caller.principal.actor()).await?, &name)?;
            answer(tx, StatusCode::CREATED, &name).await
        })
        .await
}

/// Changes a pool. Whoever holds units keeps them, also when the limit is lowered under what is in use.
#[utoipa::path(patch, path = "/api/v1/pools/{name}", params(("name" = String, Path, description = "Its name")), request_body = ChangePool, responses((status = 200, body = super::Pool), (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn change(
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<ChangePool>,
) -> Result<Response, Problem> {
    let name = named(&name)?;
    let reason = body.reason.as_deref().map(checked).transpose()?;
    let what = format!("PATCH /api/v1/pools/{name} {}", json!(body));
    caller
        .run(&object(&name), &what, async |tx| {
            apply(tx, &name, &caller.principal.actor(), reason, |settings| body.settings.over(settings)).await
        })
        .await
}

/// Changes the settings as they are now, and answers with the pool as it is then.
pub(crate) async fn apply(
    tx: &mut Tx,
    name: &PoolName,
    actor: &Actor,
    reason: Option<&str>,
    change: impl FnOnce(Settings) -> Result<Settings, Problem>,
) -> Outcome {
    let before = tx.pools().lock(name).await?.ok_or_else(|| unknown(name.as_str()))?;
    let settings = change(before.settings)?;
    defined(tx.pools().set(&settings, actor, reason).await?, name)?;
    answer(tx, StatusCode::OK, name).await
}

/// Pauses, resumes or removes a pool.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let name = named(request.object())?;
    request.check_scope(&object(&name))?;
    let (actor, reason) = (request.actor(), request.reason);
    match request.action {
        Action::PoolPause => {
            let (by, at) =
                (request.caller.principal.name.clone(), request.caller.state.inner().parts.clock.now());
            let pause = Pause { by, reason: request.required_reason().to_owned(), at };
            apply(tx, &name, &actor, reason, |settings| {
                let settings = Settings { paused: Some(pause), ..settings };
                settings.check().map_err(|BadSettings { field, why }| bad(field, why))?;
                Ok(settings)
            })
            .await
        }
        Action::PoolResume => {
            apply(tx, &name, &actor, reason, |settings| Ok(Settings { paused: None, ..settings })).await
        }
        Action::PoolRemove => {
            defined(tx.pools().remove(&name, &actor, reason).await?, &name)?;
            Ok((StatusCode::OK, json!({ "removed": name })))
        }
        _ => Err(request.mistaken()),
    }
}

async fn answer(tx: &mut Tx, status: StatusCode, name: &PoolName) -> Outcome {
    let (record, now) = (find(tx, name).await?, tx.now().await?);
    Ok((status, json!(shown(&record, now))))
}

fn defined(defined: Defined, name: &PoolName) -> Result<(), Problem> {
    let taken = |detail: String| {
        Problem::new(Code::PoolTaken, detail, "change the pool that exists, or take another name or id")
    };
    match defined {
        Defined::Done => Ok(()),
        Defined::NameTaken => Err(taken(format!("there is already a pool {name}"))),
        Defined::ExternalIdTaken(other) => Err(taken(format!("the pool {other} has this external id"))),
        Defined::NoSuchPool => Err(unknown(name.as_str())),
        Defined::InUse { tickets } => {
            let detail = format!("{tickets} hold units of the pool {name} or wait for them");
            let remedy = "pause the pool and wait until it is empty, or release what is over";
            Err(Problem::new(Code::PoolInUse, detail, remedy))
        }
    }
}
