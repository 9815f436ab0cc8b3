//! Create, change, pause, resume and remove pools; open and close their breakers.

use super::{find, named, object, unknown};
use crate::api::Body;
use crate::mutation::Caller;
use crate::operate::{ActionRequest, Outcome, checked};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::str::FromStr;
use tidemill_api::pool::{ChangePool, CreatePool, Pool, PoolRefusal, put};
use tidemill_domain::action::Action;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::settings::Pause;
use tidemill_domain::pool::{BreakerChange, PoolName, Settings};
use tidemill_store::Tx;

/// Creates a pool.
#[utoipa::path(post, path = "/api/v1/pools", operation_id = "create_pool", request_body = CreatePool, responses((status = 201, body = Pool)))]
pub(crate) async fn create(caller: Caller, Body(body): Body<CreatePool>) -> Result<Response, Problem> {
    create_by(&caller, "POST /api/v1/pools", &body).await
}

/// Creates a pool for a program or a form; `from` says which.
pub(crate) async fn create_by(caller: &Caller, from: &str, body: &CreatePool) -> Result<Response, Problem> {
    let settings = body.settings(|name, max_units| new_pool(&caller.state, name, max_units))?;
    let name = &settings.name;
    let what = format!("{from} {}", json!(body));
    caller
        .run(&object(name), &what, async |tx| {
            PoolRefusal::check(tx.pools().create(&settings, &caller.principal.actor()).await?, name)?;
            answer(tx, StatusCode::CREATED, name).await
        })
        .await
}

/// A new pool with the defaults of the configuration.
pub(crate) fn new_pool(state: &State, name: PoolName, max_units: u32) -> Settings {
    let mut settings = Settings::new(name, max_units);
    put(&mut settings.threshold_percent, configured(state, "pools.default_threshold_percent"));
    put(&mut settings.default_units, configured(state, "pools.default_units"));
    put(&mut settings.min_units, configured(state, "pools.min_units"));
    settings
}

fn configured<T: FromStr>(state: &State, key: &str) -> Option<T> {
    let line = state.inner().parts.configuration.iter().find(|line| line.key == key)?;
    line.value.parse().ok()
}

/// Changes a pool. Holders keep their units, even if the new limit is below the units in use.
#[utoipa::path(patch, path = "/api/v1/pools/{name}", operation_id = "change_pool", params(("name" = String, Path, description = "Name of the pool")), request_body = ChangePool, responses((status = 200, body = Pool)))]
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
            let change = |settings| Ok(body.settings.apply(settings)?);
            apply(tx, &name, &caller.principal.actor(), reason, change).await
        })
        .await
}

/// Changes the current settings, and answers with the changed pool.
pub(crate) async fn apply(
    tx: &mut Tx,
    name: &PoolName,
    actor: &Actor,
    reason: Option<&str>,
    change: impl FnOnce(Settings) -> Result<Settings, Problem>,
) -> Outcome {
    let before = tx.pools().lock(name).await?.ok_or_else(|| unknown(name.as_str()))?;
    let settings = change(before.settings)?;
    PoolRefusal::check(tx.pools().set(&settings, actor, reason).await?, name)?;
    answer(tx, StatusCode::OK, name).await
}

pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let name = named(request.object())?;
    request.check_scope(&object(&name))?;
    let (actor, reason) = (request.actor(), request.reason);
    let paused = match request.action {
        Action::PoolPause => Some(Pause {
            by: request.caller.principal.name.clone(),
            reason: request.required_reason().to_owned(),
            at: request.caller.state.inner().parts.clock.now(),
        }),
        Action::PoolResume => None,
        Action::PoolDelete => {
            PoolRefusal::check(tx.pools().remove(&name, &actor, reason).await?, &name)?;
            return Ok((StatusCode::OK, json!({ "removed": name })));
        }
        Action::BreakerOpen | Action::BreakerClose => {
            let (by, reason) = (actor.name.clone(), request.required_reason().to_owned());
            let change = match request.action {
                Action::BreakerOpen => BreakerChange::Open { by, reason },
                _ => BreakerChange::Close { by, reason },
            };
            PoolRefusal::check(tx.pools().set_breaker(&name, change, &actor).await?, &name)?;
            return answer(tx, StatusCode::OK, &name).await;
        }
        _ => return Err(request.mistaken()),
    };
    let change = |settings| {
        let settings = Settings { paused, ..settings };
        settings.check().map_err(PoolRefusal::from)?;
        Ok(settings)
    };
    apply(tx, &name, &actor, reason, change).await
}

async fn answer(tx: &mut Tx, status: StatusCode, name: &PoolName) -> Outcome {
    let (record, now) = (find(tx, name).await?, tx.now().await?);
    Ok((status, json!(Pool::from((&record, now)))))
}
