//! API tokens.

use crate::access::Principal;
use crate::api::Body;
use crate::mutation::Caller;
use crate::operate::{ActionRequest, Outcome};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use tidemill_domain::access::{ROLES, SCOPES_MAX, Token as Secret, is_scope, is_token_name};
use tidemill_domain::audit::{AuditEntry, Role};
use tidemill_domain::code::Code;
use tidemill_engine::SystemIds;
use tidemill_store::Tx;
use tidemill_store::token::{NewToken, TokenRecord};
use utoipa::ToSchema;

/// How long a token is valid when nobody says.
pub(crate) const DAYS: u32 = 90;
const DAYS_MAX: u32 = 3650;

/// A token, without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Token {
    /// Its public part.
    id: String,
    /// What people call it.
    name: String,
    /// What its bearer is.
    role: String,
    /// To which objects it is limited; none for all.
    scopes: Vec<String>,
    /// When it was created.
    created_at: String,
    /// By whom.
    created_by: String,
    /// When it ends.
    expires_at: Option<String>,
    /// When it was last used, to the minute.
    last_used_at: Option<String>,
    /// When it was revoked.
    revoked_at: Option<String>,
}

/// A list of tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct Tokens {
    /// The newest first.
    items: Vec<Token>,
}

/// A token that is to be created.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What people call it.
    pub name: String,
    /// `viewer`, `operator`, `admin`, `worker` or `requester`.
    pub role: String,
    /// To which objects it is limited, such as `pool/etl*`; none for all.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// For how many days it is valid; 90 when not given.
    pub days: Option<u32>,
}

impl CreateToken {
    /// Checks every field, and that `principal` hands on no more than it has.
    pub fn checked(&self, principal: &Principal) -> Result<NewToken, Problem> {
        let bad = |why: &str, remedy: &str| Problem::bad_request(why, remedy);
        if !is_token_name(&self.name) {
            return Err(bad(
                "the name is empty, too long or has control characters",
                "use 1 to 100 characters",
            ));
        }
        let role: Option<Role> = self.role.parse().ok().filter(|role| ROLES.contains(role));
        let role = role.ok_or_else(|| {
            bad("there is no such role", "use viewer, operator, admin, worker or requester")
        })?;
        if self.scopes.len() > SCOPES_MAX || !self.scopes.iter().all(|scope| is_scope(scope)) {
            return Err(bad(
                "a scope is not understood",
                "use at most 20 objects such as pool/etl or pool/etl*",
            ));
        }
        principal.check_grant(&self.scopes)?;
        let days = self.days.unwrap_or(DAYS);
        if !(1..=DAYS_MAX).contains(&days) {
            return Err(bad("days is not from 1 to 3650", "choose how long the token is valid"));
        }
        let valid_for = Some(Duration::from_secs(u64::from(days) * 86_400));
        Ok(NewToken { name: self.name.clone(), role, scopes: self.scopes.clone(), valid_for })
    }
}

/// A token that was just created. Its secret is never shown again.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedToken {
    /// The whole token.
    secret: String,
    /// The rest.
    token: Token,
}

impl From<&TokenRecord> for Token {
    fn from(record: &TokenRecord) -> Self {
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            role: record.role.as_str().to_owned(),
            scopes: record.scopes.clone(),
            created_at: record.created_at.to_string(),
            created_by: record.created_by.clone(),
            expires_at: record.expires_at.map(|at| at.to_string()),
            last_used_at: record.last_used_at.map(|at| at.to_string()),
            revoked_at: record.revoked_at.map(|at| at.to_string()),
        }
    }
}

/// Makes a token of fresh random bytes.
pub(crate) fn make() -> Result<Secret, Problem> {
    let failed = |_| Problem::new(Code::Unexpected, "no random bytes could be had", "try again");
    SystemIds.token().map_err(failed)
}

/// The tokens that were created, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", responses((status = 200, body = Tokens)))]
pub(crate) async fn list(Given(state): Given<State>) -> Result<Json<Tokens>, Problem> {
    let mut tx = state.read().await?;
    let records = tx.tokens().list(500).await?;
    Ok(Json(Tokens { items: records.iter().map(Token::from).collect() }))
}

/// Creates a token. The answer is the only place where its secret is ever shown, so it is not kept for a repeated
/// request either: with an idempotency key the secret is missing from the second answer.
#[utoipa::path(post, path = "/api/v1/tokens", request_body = CreateToken, responses((status = 201, body = CreatedToken)))]
pub(crate) async fn create(caller: Caller, Body(body): Body<CreateToken>) -> Result<Response, Problem> {
    let new = body.checked(&caller.principal)?;
    let object = format!("token/{}", new.name);
    let secret = make()?;
    let what = format!("POST /api/v1/tokens {}", json!(body));
    let mut created = None;
    let response = caller
        .run(&object, &what, async |tx| {
            let record = tx.tokens().create(&secret, &new, &caller.principal.actor()).await?;
            let token = Token::from(&record);
            let kept = json!({ "secret": null, "token": token });
            created = Some(CreatedToken { secret: secret.expose(), token });
            Ok((StatusCode::CREATED, kept))
        })
        .await?;
    Ok(match created {
        Some(created) => axum::response::IntoResponse::into_response((StatusCode::CREATED, Json(created))),
        None => response,
    })
}

/// Ends a token and every session that was opened with it.
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
