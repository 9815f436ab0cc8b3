//! API tokens.

use crate::access::Principal;
use crate::api::{Body, List, Read};
use crate::mutation::Caller;
use crate::operate::{ActionRequest, Outcome};
use crate::problem::Problem;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::time::Duration;
use tidemill_api::Page;
use tidemill_api::token::{CreateToken, CreatedToken, Token};
use tidemill_domain::access::{ROLES, SCOPES_MAX, is_scope, is_token_name};
use tidemill_domain::audit::{AuditEntry, Role};
use tidemill_domain::code::Code;
use tidemill_engine::SystemIds;
use tidemill_store::Tx;
use tidemill_store::token::NewToken;

/// How long a token is valid by default.
pub(crate) const DAYS: u32 = 90;
const DAYS_MAX: u32 = 3650;

/// Checks every field, and that `principal` grants no more than it has.
fn checked(request: &CreateToken, principal: &Principal) -> Result<NewToken, Problem> {
    let CreateToken { name, role, scopes, days } = request;
    let bad = |why: &str, remedy: &str| Problem::bad_request(why, remedy);
    if !is_token_name(name) {
        return Err(bad("the name is empty, too long or has control characters", "use 1 to 100 characters"));
    }
    let role: Option<Role> = role.parse().ok().filter(|role| ROLES.contains(role));
    let role = role.ok_or_else(|| bad("unknown role", "use viewer, operator, admin, worker or requester"))?;
    if scopes.len() > SCOPES_MAX || !scopes.iter().all(|scope| is_scope(scope)) {
        return Err(bad("invalid scope", "use at most 20 objects such as pool/etl or pool/etl*"));
    }
    principal.check_grant(scopes)?;
    let days = days.unwrap_or(DAYS);
    if !(1..=DAYS_MAX).contains(&days) {
        return Err(bad("days must be from 1 to 3650", "choose how long the token is valid"));
    }
    let valid_for = Some(Duration::from_secs(u64::from(days) * 86_400));
    Ok(NewToken { name: name.clone(), role, scopes: scopes.clone(), valid_for })
}

/// List the tokens, newest first, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", operation_id = "list_tokens", responses((status = 200, body = Page<Token>)))]
pub(crate) async fn list(Read(mut tx): Read) -> List<Token> {
    let now = tx.now().await?;
    let records = tx.tokens().list(500).await?;
    Ok(Json(Page::whole(records.iter().map(|record| (record, now)))))
}

/// Create a token. Only this response shows the secret. It is not stored, so a repeated request with the same idempotency
/// key gets no secret.
#[utoipa::path(post, path = "/api/v1/tokens", operation_id = "create_token", request_body = CreateToken, responses((status = 201, body = CreatedToken)))]
pub(crate) async fn create(caller: Caller, Body(body): Body<CreateToken>) -> Result<Response, Problem> {
    let (stored, created) = create_by(&caller, "POST /api/v1/tokens", &body).await?;
    Ok(match created {
        Some(created) => (StatusCode::CREATED, Json(created)).into_response(),
        None => stored,
    })
}

/// Creates a token: the stored response, and the token with its secret unless the request was a repetition.
pub(crate) async fn create_by(
    caller: &Caller,
    origin: &str,
    request: &CreateToken,
) -> Result<(Response, Option<CreatedToken>), Problem> {
    let new = checked(request, &caller.principal)?;
    let failed =
        |_| Problem::new(Code::Unexpected, "the operating system returned no random bytes", "try again");
    let secret = SystemIds.token().map_err(failed)?;
    let mut created = None;
    let what = format!("{origin} {}", json!(request));
    let response = caller
        .run(&format!("token/{}", new.name), &what, async |tx| {
            let record = tx.tokens().create(&secret, &new, &caller.principal.actor()).await?;
            let token = Token::from((&record, record.created_at));
            let stored = CreatedToken { secret: None, token };
            created = Some(CreatedToken { secret: Some(secret.expose()), ..stored.clone() });
            Ok((StatusCode::CREATED, json!(stored)))
        })
        .await?;
    Ok((response, created))
}

/// Revokes a token and ends its sessions.
pub(crate) async fn revoke(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let (id, actor) = (request.object(), request.actor());
    let object = format!("token/{id}");
    request.check_scope(&object)?;
    if !tx.tokens().revoke(id, &actor).await? {
        return Err(Problem::not_found("a valid token with this id"));
    }
    if let Some(reason) = request.reason {
        let entry = AuditEntry::new(actor, "token.reason", &object);
        tx.audit().record(&entry.because(reason)).await?;
    }
    Ok((StatusCode::OK, json!({ "revoked": id })))
}
