//! Logging in with a token, and logging out.

use crate::access::{Authentication, Principal, Via, session};
use crate::dashboard::form::{ActionForm, Fields};
use crate::dashboard::frame::alone;
use crate::dashboard::page_context::home;
use crate::dashboard::part::command;
use crate::dashboard::{PageContext, form};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::{ConnectInfo, State as Given};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Extension, response::Html};
use maud::html;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tidemill_domain::access::{Permission, Token};
use tidemill_domain::code::Code;
use tidemill_engine::clock::random_bytes;
use tidemill_store::token::TokenRecord;

pub(crate) async fn page(visit: PageContext) -> Response {
    if matches!(visit.state.inner().authentication, Authentication::None) || visit.has_session() {
        return Redirect::to(&home(&visit.state)).into_response();
    }
    form_page(&visit, None).into_response()
}

fn form_page(visit: &PageContext, complaint: Option<&str>) -> Html<String> {
    let content = html! {
        section.panel {
            h1 { "Log in" }
            @if let Some(complaint) = complaint {
                p.banner.bad role="alert" { (complaint) }
            }
            form method="post" action=(visit.state.path("/login")) {
                div.fields {
                    label {
                        "API token"
                        input name="token" type="password" required autocomplete="current-password" maxlength="200"
                            placeholder="tm_…";
                    }
                }
                div.row { button.do { "Log in" } }
            }
            p.soft.apart { "No token? Create one on the server: " (command("tidemill token create NAME --role viewer")) }
        }
    };
    alone(&visit.state, "Log in", visit.preferences, &content)
}

#[derive(Deserialize)]
pub(crate) struct LoginForm {
    token: String,
}

/// Keeps the token out of logs.
impl std::fmt::Debug for LoginForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoginForm(***)")
    }
}

pub(crate) async fn open(
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
    visit: PageContext,
    Fields(form): Fields<LoginForm>,
) -> Result<Response, Problem> {
    let state = &visit.state;
    if matches!(state.inner().authentication, Authentication::None) {
        return Ok(Redirect::to(&home(state)).into_response());
    }
    let Some((token, secret)) = open_session(state, form.token.trim()).await? else {
        let address = peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.0.0.ip());
        state.inner().limits.note_failure(address, state.inner().parts.clock.monotonic())?;
        let complaint = "This token is not valid: it may be mistyped, expired or revoked.";
        return Ok((StatusCode::UNAUTHORIZED, form_page(&visit, Some(complaint))).into_response());
    };
    if !tidemill_domain::access::allows(token.role, Permission::View) {
        tracing::info!(token.id = %token.id, "token {} opened a session but may not view anything", token.id);
    }
    let cookie = session::set(state.inner().cookie, &secret);
    Ok(with_cookie(Redirect::to(&home(state)), cookie))
}

/// The token's record and the secret of the new session; none when the token is not valid.
async fn open_session(state: &State, text: &str) -> Result<Option<(TokenRecord, String)>, Problem> {
    let Ok(token) = text.parse::<Token>() else { return Ok(None) };
    // Check the token without a write lock, so that guessing attempts do not block writers.
    let mut tx = state.read().await?;
    let found = tx.tokens().authenticate(&token).await?;
    drop(tx);
    let Some(record) = found else { return Ok(None) };
    let failed =
        |_| Problem::new(Code::Unexpected, "the operating system returned no random bytes", "try again");
    let secret = session::secret_text(&random_bytes::<32>().map_err(failed)?);
    let mut tx = state.store().begin().await?;
    tx.tokens().touch(&record.id).await?;
    tx.tokens().open_session(&secret, &record).await?;
    tx.commit().await?;
    Ok(Some((record, secret)))
}

pub(crate) async fn close(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Fields(form): Fields<ActionForm>,
) -> Result<Response, Problem> {
    form::check(&principal, &form.form_token)?;
    if let Via::Session { secret } = &principal.via {
        let mut tx = state.store().begin().await?;
        tx.tokens().close_session(secret).await?;
        tx.commit().await?;
    }
    let cookie = session::unset(state.inner().cookie);
    Ok(with_cookie(Redirect::to(&state.path("/login")), cookie))
}

fn with_cookie(redirect: Redirect, cookie: Option<HeaderValue>) -> Response {
    let mut response = redirect.into_response();
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
