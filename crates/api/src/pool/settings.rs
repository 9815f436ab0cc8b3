//! Changes of pools, and why they are refused.

use crate::shapes;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::duration;
use tidemill_domain::nearest::did_you_mean;
use tidemill_domain::pool::settings::{BadSettings, Capacity};
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_store::pool::Defined;
use utoipa::ToSchema;

/// Settings of a pool. Settings that you leave out do not change; in a new pool they have their defaults.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct PoolSettings {
    /// `src_db_id` in the EMR Batch Agent API. Null removes it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub external_id: Option<Option<i64>>,
    /// Type of the database. Default `oracle`.
    pub db_type: Option<String>,
    /// Capacity in units.
    pub max_units: Option<u32>,
    /// Percentage of the capacity that may be in use. Default `pools.default_threshold_percent`, which is 95.
    pub threshold_percent: Option<u8>,
    /// Units granted to a request that does not say how many it needs. Default `pools.default_units`, which is 1.
    pub default_units: Option<u32>,
    /// Minimum number of units after a downgrade. Default `pools.min_units`, which is 2.
    pub min_units: Option<u32>,
    /// What counts as a unit: `hint_units` (the default), `sessions`, `px` or `processes`.
    pub weight: Option<String>,
    /// Whether the database follows hints. Default true.
    pub hint_effective: Option<bool>,
    /// Degree of a `PARALLEL` hint without a number. Default 16.
    pub default_degree: Option<u32>,
    /// Sets of parallel servers that a session may use. Default 2.
    pub server_sets: Option<u8>,
    /// `adaptive` (the default), `halving` or `fifo`.
    pub policy: Option<String>,
    /// Different capacities at certain times of day.
    pub capacity: Option<Vec<PoolCapacity>>,
    /// Time zone of these times. Default UTC.
    pub zone: Option<String>,
    /// Heartbeat timeout. Default `15m`.
    pub lease_for: Option<String>,
    /// Maximum time that units are held. Default `1d`.
    pub max_hold: Option<String>,
    /// Time within which a holder must claim granted units. Default `2m`.
    pub claim_for: Option<String>,
}

shapes! {
    /// A different capacity at a time of day.
    pub struct PoolCapacity in body {
        /// Such as `MON-FRI 22:00-06:00`.
        window: String,
        max_units: u32,
    }

    /// A new pool.
    #[schema(example = json!({ "name": "ADW", "max_units": 40, "threshold_percent": 95, "policy": "adaptive" }))]
    pub struct CreatePool in body {
        name: String,
        /// `max_units` is required.
        #[serde(flatten)]
        settings: PoolSettings,
    }

    /// A change of a pool.
    #[schema(example = json!({ "max_units": 20, "reason": "the host has fewer cores now" }))]
    pub struct ChangePool in body {
        /// Reason, kept in the audit log.
        reason: Option<String>,
        #[serde(flatten)]
        settings: PoolSettings,
    }
}

impl From<&Capacity> for PoolCapacity {
    fn from(capacity: &Capacity) -> Self {
        Self { window: capacity.window.to_string(), max_units: capacity.max_units }
    }
}

/// Tells a null, which removes the value, from a field that is missing.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl CreatePool {
    /// `new` makes a pool of this name and capacity with the defaults of the installation.
    pub fn settings(&self, new: impl FnOnce(PoolName, u32) -> Settings) -> Result<Settings, PoolRefusal> {
        let missing = || bad("max_units", "it is missing");
        let max_units = self.settings.max_units.ok_or_else(missing)?;
        let name = self.name.parse().map_err(|error| bad("name", error))?;
        self.settings.apply(new(name, max_units))
    }
}

impl PoolSettings {
    /// Changes `settings`, and checks the result.
    pub fn apply(&self, mut settings: Settings) -> Result<Settings, PoolRefusal> {
        let windows = self.capacity.as_ref().map(|windows| windows.iter().map(window).collect());
        put(&mut settings.external_id, self.external_id);
        put(&mut settings.db_type, self.db_type.clone());
        put(&mut settings.max_units, self.max_units);
        put(&mut settings.threshold_percent, self.threshold_percent);
        put(&mut settings.default_units, number("default_units", self.default_units)?);
        put(&mut settings.min_units, number("min_units", self.min_units)?);
        put(&mut settings.weight, word("weight", self.weight.as_deref())?);
        put(&mut settings.hint_effective, self.hint_effective);
        put(&mut settings.default_degree, number("default_degree", self.default_degree)?);
        put(&mut settings.server_sets, self.server_sets);
        put(&mut settings.policy, word("policy", self.policy.as_deref())?);
        put(&mut settings.capacity, windows.transpose()?);
        put(&mut settings.zone, word("zone", self.zone.as_deref())?);
        put(&mut settings.lease_for, length("lease_for", self.lease_for.as_deref())?);
        put(&mut settings.max_hold, length("max_hold", self.max_hold.as_deref())?);
        put(&mut settings.claim_for, length("claim_for", self.claim_for.as_deref())?);
        settings.check()?;
        Ok(settings)
    }
}

/// Sets a field, if there is a new value for it.
pub fn put<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// What a limit means while at least as many units are in use.
pub fn without_grants(usage: u64, limit: u64) -> Option<String> {
    let until = || match limit {
        0 => "while the limit is 0".to_owned(),
        _ => format!("until fewer than {limit} units are in use"),
    };
    (usage >= limit).then(|| format!("{usage} in use; nothing is killed; no grants {}", until()))
}

fn window(capacity: &PoolCapacity) -> Result<Capacity, BadSettings> {
    let window = capacity.window.parse().map_err(|error| bad("capacity", error))?;
    Ok(Capacity { window, max_units: capacity.max_units })
}

fn number(field: &'static str, number: Option<u32>) -> Result<Option<NonZeroU32>, BadSettings> {
    number.map(|number| NonZeroU32::new(number).ok_or_else(|| bad(field, "it is zero"))).transpose()
}

fn word<T: FromStr<Err: ToString>>(
    field: &'static str,
    text: Option<&str>,
) -> Result<Option<T>, BadSettings> {
    text.map(|text| text.parse().map_err(|error: T::Err| bad(field, error.to_string()))).transpose()
}

fn length(field: &'static str, text: Option<&str>) -> Result<Option<Duration>, BadSettings> {
    text.map(|text| duration::parse(text).map_err(|error| bad(field, error))).transpose()
}

fn bad(field: &'static str, why: impl ToString) -> BadSettings {
    BadSettings { field, why: why.to_string() }
}

/// Why a pool cannot be found, created, changed or deleted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolRefusal {
    #[error("there is no pool {name:?}")]
    NotFound { name: String, known: Vec<String> },
    #[error("there is already a pool {0}")]
    NameTaken(PoolName),
    #[error("the pool {0} has this external id")]
    ExternalIdTaken(PoolName),
    #[error("the pool {name} has {tickets} leases and requests")]
    InUse { name: PoolName, tickets: u64 },
    #[error(transparent)]
    Settings(#[from] BadSettings),
}

impl PoolRefusal {
    /// Only the beginning of a long text is repeated.
    pub fn not_found(text: &str) -> Self {
        Self::not_found_among(text, Vec::new())
    }

    /// With the nearest of the `known` names in its fix.
    pub fn not_found_among(text: &str, known: Vec<String>) -> Self {
        Self::NotFound { name: text.chars().take(100).collect(), known }
    }

    /// The refusal in the answer of the store, if there is one.
    pub fn check(defined: Defined, name: &PoolName) -> Result<(), Self> {
        Err(match defined {
            Defined::Done => return Ok(()),
            Defined::NoSuchPool => Self::not_found(name.as_str()),
            Defined::NameTaken => Self::NameTaken(name.clone()),
            Defined::ExternalIdTaken(other) => Self::ExternalIdTaken(other),
            Defined::InUse { tickets } => Self::InUse { name: name.clone(), tickets },
        })
    }

    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::PoolNotFound,
            Self::NameTaken(_) | Self::ExternalIdTaken(_) => Code::PoolTaken,
            Self::InUse { .. } => Code::PoolInUse,
            Self::Settings(_) => Code::BadPoolSettings,
        }
    }

    /// The setting that is wrong, if it is one.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::NameTaken(_) => Some("name"),
            Self::ExternalIdTaken(_) => Some("external_id"),
            Self::Settings(bad) => Some(bad.field),
            Self::NotFound { .. } | Self::InUse { .. } => None,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::NotFound { name, known } => format!(
                "{}check the name with `tidemill pool list`, or create the pool",
                did_you_mean(name, known)
            ),
            Self::NameTaken(_) => "change this pool, or choose another name".to_owned(),
            Self::ExternalIdTaken(other) => format!("choose another external id, or delete {other}"),
            Self::InUse { name, .. } => format!(
                "pause the pool and wait until it is empty, or release its leases; \
                 see `tidemill pool holders {name}` and `tidemill pool queue {name}`"
            ),
            Self::Settings(bad) => format!("correct {}", bad.field),
        }
    }
}
