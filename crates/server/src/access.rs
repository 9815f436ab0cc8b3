//! The layer that every request passes: authentication, permissions, origin and rate limits.
//!
//! Deny by default: a request that matches no route gets 404 before any handler sees it, and every route names the
//! permission that it needs.

pub mod jwt;
pub mod limit;
pub mod session;

mod endpoint_token;
mod origin;
mod signed;

use crate::dashboard;
use crate::lambda::invocation::LogType;
use crate::lambda::reply::{Reply, ServiceError};
use crate::lambda::signature;
use crate::problem::Problem;
use crate::route::{Access, Route, Surface};
use crate::state::State;
use axum::extract::{ConnectInfo, MatchedPath, Request, State as Given};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use endpoint_token::EndpointToken;
use jwt::Issuer;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::access::{Permission, Token, allows, covers, in_scope};
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::code::Code;
use tidemill_engine::SystemIds;
use tidemill_store::token::TokenRecord;
use tidemill_store::{StoreError, Tx};

/// How much of an unknown address its error page shows.
const PATH_CHARS_MAX: usize = 200;
/// Timeout for recording that a token was used.
const TOUCH_PATIENCE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub enum Authentication {
    /// Every caller is an administrator. On loopback only.
    None,
    /// By an API token, a session opened with one, or a JWT of one of these issuers.
    Required { issuers: Vec<Issuer> },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    /// The name in the audit log.
    pub name: String,
    /// Unique, unlike the name.
    pub caller: String,
    pub role: Role,
    /// The objects that it is limited to; empty for all.
    pub scopes: Vec<String>,
    pub via: Via,
    pub request_id: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Via {
    /// By a header that browsers never send on their own.
    Bearer,
    /// By a session cookie. Its secret makes the form token.
    Session { secret: String },
    /// Without authentication.
    Open,
}

impl Principal {
    /// Not limited to scopes.
    fn new(name: String, caller: String, role: Role, via: Via, request_id: &str) -> Self {
        Self { name, caller, role, scopes: Vec::new(), via, request_id: request_id.to_owned() }
    }

    pub fn actor(&self) -> Actor {
        Actor { name: self.name.clone(), role: self.role, request_id: Some(self.request_id.clone()) }
    }

    pub fn may(&self, permission: Permission) -> bool {
        allows(self.role, permission)
    }

    pub fn check_scope(&self, object: &str) -> Result<(), Problem> {
        if in_scope(&self.scopes, object) {
            return Ok(());
        }
        let detail = format!("this token is limited to {}", self.scopes.join(", "));
        Err(Problem::new(Code::NotAllowed, detail, "use a token without scopes, or one for this object"))
    }

    /// A token with scopes can create tokens only within these scopes.
    pub fn check_grant(&self, scopes: &[String]) -> Result<(), Problem> {
        let is_unlimited = self.scopes.is_empty();
        if is_unlimited || (!scopes.is_empty() && scopes.iter().all(|scope| covers(&self.scopes, scope))) {
            return Ok(());
        }
        let detail = format!("this token is limited to {} and cannot grant more", self.scopes.join(", "));
        Err(Problem::new(Code::NotAllowed, detail, "give the new token scopes within these"))
    }

    /// The token in every form of its pages.
    pub fn form_token(&self) -> String {
        match &self.via {
            Via::Session { secret } => session::form_token(secret),
            Via::Open | Via::Bearer => String::new(),
        }
    }
}

type Table = HashMap<(Method, &'static str), (Access, Surface)>;

/// The routes with their permissions.
#[derive(Clone, Debug)]
pub(crate) struct Entries(Arc<Table>);

impl Entries {
    pub(crate) fn of(routes: &[Route]) -> Self {
        let entry = |route: &Route| ((route.method.clone(), route.path), (route.access, route.surface));
        Self(Arc::new(routes.iter().map(entry).collect()))
    }

    fn find(&self, method: &Method, path: &str) -> Option<(Access, Surface)> {
        // HEAD has the permissions of GET.
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        self.0.get(&(method, path)).copied()
    }
}

pub(crate) async fn guard(
    Given((state, entries)): Given<(State, Entries)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, mut body) = request.into_parts();
    endpoint_token::take(&mut parts);
    let request_id = SystemIds.request();
    let base_path = &state.inner().base_path;
    let matched = parts.extensions.get::<MatchedPath>().map(|path| {
        let path = path.as_str();
        match path.strip_prefix(base_path.as_str()).unwrap_or(path) {
            "" => "/".to_owned(),
            path => path.to_owned(),
        }
    });
    let entry = matched.as_deref().and_then(|path| entries.find(&parts.method, path));
    let surface = entry.map_or_else(|| surface_of_unknown(&parts, base_path), |(_, surface)| surface);
    let headers = parts.headers.clone();
    let answer = match entry {
        None => Err(Refusal::Problem(unknown(&state, &parts, matched.is_some(), surface))),
        // PostgreSQL does not accept NUL in text.
        Some(_) if parts.uri.to_string().contains("%00") => {
            Err(Problem::bad_request("the address contains a NUL character", "remove %00").into())
        }
        Some((access, _)) => match signed::caller(&state, &parts, &mut body, surface, &request_id).await {
            Ok(signer) => admit(&state, &parts, &request_id, access, signer).await,
            Err(refusal) => Err(refusal),
        },
    };
    let mut response = match answer {
        Ok(principal) => {
            parts.extensions.remove::<EndpointToken>();
            parts.extensions.insert(principal);
            parts.extensions.insert(surface);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(Refusal::Login) if surface == Surface::Page => {
            Redirect::to(&state.path("/login")).into_response()
        }
        Err(Refusal::Login) => not_authenticated().into_response(),
        Err(Refusal::Problem(problem)) => problem.into_response(),
        Err(Refusal::Signature(refusal)) if surface == Surface::Lambda => {
            lambda_error(refusal.into(), &request_id)
        }
        Err(Refusal::Signature(refusal)) => {
            let remedy = "sign it with a key of this server, or send `Authorization: Bearer TOKEN`";
            Problem::new(Code::SignatureRefused, refusal.to_string(), remedy).into_response()
        }
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let problem = problem.with_request_id(&request_id);
        response = match surface {
            Surface::Page => dashboard::problem_page(&state, &headers, &problem),
            Surface::Api | Surface::EmrAgent => problem.into_response(),
            Surface::Lambda => lambda_error(ServiceError::from(&problem), &request_id),
        };
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    add_headers(response.headers_mut(), &request_id);
    response
}

fn lambda_error(error: ServiceError, request_id: &str) -> Response {
    Reply::Refused(error).into_response(request_id, LogType::None, "")
}

/// An unknown address is a page for browsers, and JSON for programs and below `/api/`.
fn surface_of_unknown(parts: &Parts, base_path: &str) -> Surface {
    let path = parts.uri.path();
    let is_api = path.strip_prefix(base_path).unwrap_or(path).starts_with("/api/");
    let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let wants_page = accept.is_some_and(|accept| accept.contains("text/html"));
    if wants_page && !is_api { Surface::Page } else { Surface::Api }
}

fn unknown(state: &State, parts: &Parts, path_exists: bool, surface: Surface) -> Problem {
    let not_allowed = |detail: String, remedy: &str| {
        Problem::with_status(StatusCode::METHOD_NOT_ALLOWED, Code::BadRequest, detail, remedy)
    };
    match (surface, path_exists) {
        (Surface::Page, true) => {
            not_allowed("this address is only for forms".to_owned(), "go back and use the button there")
        }
        (Surface::Page, false) => {
            let path: String = state.path(parts.uri.path()).chars().take(PATH_CHARS_MAX).collect();
            let remedy = "check the address, or search for what you need";
            Problem::new(Code::NotFound, format!("there is no page {path}"), remedy)
        }
        (_, true) => {
            let detail = format!("this address does not accept {}", parts.method);
            not_allowed(detail, "see /openapi.json for its methods")
        }
        (_, false) => Problem::new(Code::NotFound, "unknown address", "see /openapi.json for all addresses"),
    }
}

fn address(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.0.ip())
}

enum Refusal {
    Login,
    Problem(Problem),
    Signature(signature::Refusal),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

fn not_authenticated() -> Problem {
    let remedy = "send `Authorization: Bearer TOKEN`; create one with `tidemill token create`";
    Problem::new(Code::NotAuthenticated, "no valid credentials", remedy)
}

/// `signer` is the principal of an AWS signature.
async fn admit(
    state: &State,
    parts: &Parts,
    request_id: &str,
    access: Access,
    signer: Option<Principal>,
) -> Result<Principal, Refusal> {
    let principal = match signer {
        Some(signer) => Some(signer),
        None => identify(state, parts, request_id).await?,
    };
    if !parts.method.is_safe() {
        let via = principal.as_ref().map_or(&Via::Open, |principal| &principal.via);
        origin::check(&parts.headers, via)?;
    }
    if matches!(principal.as_ref().map(|principal| &principal.via), Some(Via::Open)) {
        origin::check_host(&parts.headers)?;
    }
    match (access, principal) {
        (Access::Public, Some(principal)) => Ok(principal),
        // The role has no permissions over HTTP.
        (Access::Public, None) => {
            let name = || "anonymous".to_owned();
            Ok(Principal::new(name(), name(), Role::System, Via::Bearer, request_id))
        }
        (Access::Needs(_), None) => Err(Refusal::Login),
        (Access::Needs(permission), Some(principal)) => {
            // Requests for units have their own limit. Without authentication the caller is on this host, and all programs
            // there would share one limit.
            if permission != Permission::Request && principal.via != Via::Open {
                let now = state.inner().parts.clock.monotonic();
                state.inner().limits.check_caller(&principal.caller, now)?;
            }
            if principal.may(permission) {
                return Ok(principal);
            }
            let detail = format!("the role {} may not {}", principal.role, permission.as_str());
            let remedy = "use a token with another role; `tidemill token create NAME --role ROLE`";
            Err(Problem::new(Code::NotAllowed, detail, remedy).into())
        }
    }
}

/// Authenticates the request. Wrong credentials are rejected even where none are needed.
async fn identify(state: &State, parts: &Parts, request_id: &str) -> Result<Option<Principal>, Refusal> {
    let Authentication::Required { issuers } = &state.inner().authentication else {
        let name = || "local".to_owned();
        return Ok(Some(Principal::new(name(), name(), Role::Admin, Via::Open, request_id)));
    };
    let now = state.inner().parts.clock.monotonic();
    let endpoint_token = parts.extensions.get::<EndpointToken>();
    let text = match endpoint_token {
        Some(token) => Some(token.0.as_str()),
        None => bearer(&parts.headers)?,
    };
    if let Some(text) = text {
        let found = match text.parse::<Token>() {
            Ok(token) => by_token(state, request_id, &token).await?,
            Err(_) => jwt::verify(issuers, text, state.inner().parts.clock.now(), request_id),
        };
        if found.is_none() {
            state.inner().limits.note_failure(address(parts), now)?;
            return Err(match endpoint_token {
                Some(_) => Refusal::Signature(signature::Refusal::UnknownToken),
                None => not_authenticated().into(),
            });
        }
        return Ok(found);
    }
    let Some(secret) = session::cookie(&parts.headers, state.inner().cookie) else { return Ok(None) };
    Ok(by_session(state, request_id, secret, parts.uri.path()).await?)
}

async fn by_session(
    state: &State,
    request_id: &str,
    secret: String,
    path: &str,
) -> Result<Option<Principal>, Problem> {
    let mut tx = state.read().await?;
    let found = tx.tokens().session(&secret).await?;
    let now = tx.now().await?;
    drop(tx);
    let Some(session) = found else { return Ok(None) };
    // Recorded once per page, not for its style and script.
    if session.is_touch_due(now) && !path.contains("/assets/") {
        touch(state, async |tx| tx.tokens().touch_session(&secret).await).await;
    }
    Ok(Some(bearer_of(session.token, Via::Session { secret }, request_id)))
}

fn bearer_of(token: TokenRecord, via: Via, request_id: &str) -> Principal {
    let caller = format!("token/{}", token.id);
    Principal { scopes: token.scopes, ..Principal::new(token.name, caller, token.role, via, request_id) }
}

/// Records the use of a token or session. A failure does not fail the request.
async fn touch(state: &State, note: impl AsyncFnOnce(&mut Tx) -> Result<(), StoreError>) {
    let noting = async {
        let mut tx = state.store().begin().await?;
        note(&mut tx).await?;
        tx.commit().await?;
        Ok::<_, StoreError>(())
    };
    match tokio::time::timeout(TOUCH_PATIENCE, noting).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the use of a token was not recorded"),
        Err(_) => tracing::debug!("the use of a token was not recorded: the database is busy"),
    }
}

async fn by_token(state: &State, request_id: &str, token: &Token) -> Result<Option<Principal>, Problem> {
    let mut tx = state.read().await?;
    let found = tx.tokens().authenticate(token).await?;
    let now = tx.now().await?;
    drop(tx);
    let Some(record) = found else { return Ok(None) };
    if record.is_touch_due(now) {
        touch(state, async |tx| tx.tokens().touch(&record.id).await).await;
    }
    Ok(Some(bearer_of(record, Via::Bearer, request_id)))
}

/// The text after `Bearer`.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let text = value.to_str().ok().and_then(|text| text.split_once(' '));
    match text {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(not_authenticated()),
    }
}

/// Security headers of every response.
fn add_headers(headers: &mut HeaderMap, request_id: &str) {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; connect-src 'self'; \
                  form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        // With `no-referrer` browsers send no origin, and the origin of a form could not be checked.
        ("referrer-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
}
