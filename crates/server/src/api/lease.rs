//! Leases.

use crate::api::{QueryString, limit};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use serde::{Deserialize, Serialize};
use tidemill_store::lease::LeaseRecord;
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListLeases {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// A lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Lease {
    /// What sort of thing is leased.
    kind: String,
    /// Which one.
    name: String,
    /// `held`, `lapsed` or `free`.
    state: String,
    /// How many owners it has had.
    epoch: i64,
    /// The process that holds it.
    owner: Option<String>,
    /// Since when.
    acquired_at: Option<String>,
    /// Until when, if it has a term of its own.
    until: Option<String>,
}

/// A list of leases.
#[derive(Debug, Serialize, ToSchema)]
pub struct Leases {
    /// The held first.
    items: Vec<Lease>,
}

impl From<&LeaseRecord> for Lease {
    fn from(record: &LeaseRecord) -> Self {
        use tidemill_domain::lease::Lease as Stored;
        let (state, owner, until) = match record.lease {
            Stored::Free { .. } => ("free", None, None),
            Stored::Held { fence, until } => {
                (if record.is_live { "held" } else { "lapsed" }, Some(fence.owner.to_string()), until)
            }
        };
        Self {
            kind: record.key.kind().to_owned(),
            name: record.key.name().to_owned(),
            state: state.to_owned(),
            epoch: record.lease.epoch().get(),
            owner,
            acquired_at: record.acquired_at.map(|at| at.to_string()),
            until: until.map(|until| until.to_string()),
        }
    }
}

/// Who may act for what.
#[utoipa::path(get, path = "/api/v1/leases", params(ListLeases), responses((status = 200, body = Leases)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListLeases>,
) -> Result<Json<Leases>, Problem> {
    let mut tx = state.read().await?;
    let records = tx.leases().list(limit(asked.limit)?).await?;
    Ok(Json(Leases { items: records.iter().map(Lease::from).collect() }))
}
