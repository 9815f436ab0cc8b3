//! Forms: how they are read, and how a page's own are told from those of other sites.

use crate::access::{Principal, Via};
use crate::api::too_large;
use crate::problem::Problem;
use axum::Form;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidemill_domain::code::Code;
use tidemill_engine::SystemIds;

/// The fields of a form, refused with a problem when they are not understood.
#[derive(Debug)]
pub(crate) struct Fields<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Fields<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Form::from_request(request, state).await {
            Ok(Form(value)) => Ok(Self(value)),
            Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(too_large()),
            Err(rejection) => {
                let why: String =
                    rejection.body_text().chars().filter(|c| !c.is_control()).take(300).collect();
                Err(Problem::bad_request(why, "fill in the form on the page again"))
            }
        }
    }
}

/// What somebody fills in to have something done, with the hidden fields of such a form. Which of them a page has depends
/// on what it asks.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ActionForm {
    /// Why, for the audit log.
    pub(crate) reason: String,
    /// What was typed to confirm.
    pub(crate) confirm: String,
    /// The page to go back to.
    pub(crate) back: String,
    /// `yes` to restart although the definition of the job has changed.
    pub(crate) accept_change: String,
    /// What is silenced, and for how long.
    pub(crate) rule: String,
    pub(crate) subject: String,
    pub(crate) hours: u32,
    pub(crate) form_token: String,
    pub(crate) key: String,
}

/// The hidden fields of a form that changes something: proof that it is ours, and a key so that a double click
/// has one effect.
pub(crate) fn hidden(principal: &Principal) -> Markup {
    html! {
        (token(principal))
        input type="hidden" name="key" value=(SystemIds.request());
    }
}

/// The proof alone, for what may be done twice.
pub(crate) fn token(principal: &Principal) -> Markup {
    html! { input type="hidden" name="form_token" value=(principal.form_token()); }
}

/// Refuses a form that was not on a page of this session. Other sites cannot read our pages, so they do not know
/// the token.
pub fn check(principal: &Principal, form_token: &str) -> Result<(), Problem> {
    match principal.via {
        Via::Session { .. } if form_token != principal.form_token() => Err(Problem::new(
            Code::ForeignRequest,
            "the form does not belong to this session",
            "open the page again and fill in its form; you may have logged in anew meanwhile",
        )),
        Via::Session { .. } | Via::Open | Via::Bearer => Ok(()),
    }
}

/// Refuses what cannot be taken back unless its number was typed.
pub(crate) fn confirmed(typed: &str, number: i64) -> Result<(), Problem> {
    if typed.trim() == number.to_string() {
        return Ok(());
    }
    let detail = format!("what was typed is not {number}");
    Err(Problem::bad_request(detail, "type that number to confirm, so that nothing else is meant by mistake"))
}

/// The form's key as the header that programs send.
pub(crate) fn key_header(key: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let (false, Ok(value)) = (key.is_empty(), HeaderValue::from_str(key)) {
        headers.insert("idempotency-key", value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::audit::Role;

    fn principal(via: Via) -> Principal {
        let (name, caller) = ("ann".to_owned(), "token/1".to_owned());
        Principal { name, caller, role: Role::Admin, scopes: Vec::new(), via, request_id: String::new() }
    }

    #[test]
    fn a_form_of_a_session_needs_its_token() {
        let session = principal(Via::Session { secret: "s".into() });

        assert!(check(&session, &session.form_token()).is_ok());
        assert!(check(&session, "").is_err());
        assert!(check(&session, &principal(Via::Session { secret: "t".into() }).form_token()).is_err());
    }

    #[test]
    fn who_has_no_session_needs_no_token() {
        assert!(check(&principal(Via::Open), "").is_ok());
        assert!(check(&principal(Via::Bearer), "").is_ok());
    }
}
