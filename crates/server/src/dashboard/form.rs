//! Forms: reading them, and rejecting forms of other sites.

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

/// The fields of a form. Invalid fields are a problem page.
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
                Err(Problem::bad_request(why, "fill in the form again"))
            }
        }
    }
}

/// Fields of a query string or a form; names may repeat.
pub(crate) type Pairs = Vec<(String, String)>;

/// The value of a field; empty if it is missing.
pub(crate) fn field<'a>(pairs: &'a [(String, String)], name: &str) -> &'a str {
    pairs.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
}

/// What was typed: without the form token and the key, which do not identify a request.
pub(crate) fn typed(pairs: &[(String, String)]) -> Vec<&(String, String)> {
    pairs.iter().filter(|(name, _)| name != "form_token" && name != "key").collect()
}

/// A form to show again: its fields, and why it was refused.
#[derive(Debug)]
pub(crate) struct RefusedForm {
    pub(crate) fields: Pairs,
    pub(crate) problem: Problem,
}

/// The fields of all action forms. Each form has some of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ActionForm {
    pub(crate) reason: String,
    /// The number typed as confirmation.
    pub(crate) confirm: String,
    /// The page to return to.
    pub(crate) back: String,
    /// `yes` to restart although the job definition changed.
    pub(crate) accept_change: String,
    /// For silences.
    pub(crate) rule: String,
    pub(crate) subject: String,
    pub(crate) hours: u32,
    /// For corrections and approvals of renders.
    pub(crate) data: String,
    pub(crate) revision: String,
    /// For changes of a priority: `by` or `to`, and the number.
    pub(crate) how: String,
    pub(crate) priority: String,
    pub(crate) form_token: String,
    pub(crate) key: String,
}

/// The hidden fields of a form that changes something: the form token, and a key so that a double click has one effect.
pub(crate) fn hidden(principal: &Principal) -> Markup {
    html! {
        (token(principal))
        input type="hidden" name="key" value=(SystemIds.request());
    }
}

/// [`hidden`] of a form that returns to `back` afterwards.
pub(crate) fn hidden_with_back(principal: &Principal, back: &str) -> Markup {
    html! {
        (hidden(principal))
        input type="hidden" name="back" value=(back);
    }
}

/// The form token alone, for changes that can be repeated.
pub(crate) fn token(principal: &Principal) -> Markup {
    html! { input type="hidden" name="form_token" value=(principal.form_token()); }
}

/// Rejects a form without the token of this session. Other sites cannot read our pages, so they do not know the token.
pub fn check(principal: &Principal, form_token: &str) -> Result<(), Problem> {
    match principal.via {
        Via::Session { .. } if form_token != principal.form_token() => Err(Problem::new(
            Code::ForeignRequest,
            "the form does not belong to this session",
            "open the page again and fill in its form; your session may be a new one",
        )),
        Via::Session { .. } | Via::Open | Via::Bearer => Ok(()),
    }
}

/// Checks the number typed as confirmation of an action that cannot be undone.
pub(crate) fn confirmed(typed: &str, number: i64) -> Result<(), Problem> {
    if typed.trim() == number.to_string() {
        return Ok(());
    }
    let detail = format!("the confirmation is not {number}");
    Err(Problem::bad_request(detail, "type that number to confirm"))
}

/// The key of a form as the header of the API.
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
