//! API tokens.

use crate::shapes;
use tidemill_domain::time::Timestamp;
use tidemill_store::token::TokenRecord;

shapes! {
    /// A token, without its secret.
    pub struct Token from (record, now): (&TokenRecord, Timestamp) {
        /// The public part: the eight characters after `tm_`.
        id: String = record.id.clone(),
        name: String = record.name.clone(),
        /// `viewer`, `operator`, `admin`, `worker` or `requester`.
        role: &'static str = record.role.as_str(),
        /// The objects that the token is limited to; empty for all.
        scopes: Vec<String> = record.scopes.clone(),
        /// `valid`, `expired` or `revoked`.
        state: &'static str = state(record, now),
        created_at: Timestamp = record.created_at,
        created_by: String = record.created_by.clone(),
        expires_at: Option<Timestamp> = record.expires_at,
        /// Accurate to the minute.
        last_used_at: Option<Timestamp> = record.last_used_at,
        revoked_at: Option<Timestamp> = record.revoked_at,
    }

    /// A request to create a token.
    #[schema(example = json!({ "name": "airflow", "role": "requester", "scopes": ["pool/etl*"], "days": 90 }))]
    pub struct CreateToken in body {
        name: String,
        /// `viewer`, `operator`, `admin`, `worker` or `requester`.
        role: String,
        /// The objects that the token is limited to, such as `pool/etl*`; empty for all.
        #[serde(default)]
        scopes: Vec<String>,
        /// How many days the token is valid, from 1 to 3650. Default 90.
        days: Option<u32>,
    }

    /// A new token. Its secret is never shown again.
    pub struct CreatedToken {
        /// The whole token; null when a repeated request has the same idempotency key.
        secret: Option<String>,
        token: Token,
    }
}

/// `valid`, `expired` or `revoked`.
pub fn state(token: &TokenRecord, now: Timestamp) -> &'static str {
    match token.revoked_at {
        _ if token.is_valid(now) => "valid",
        Some(_) => "revoked",
        None => "expired",
    }
}
