//! The request of `tidemill run`: pools, units and hint.

use super::Run;
use crate::commands::prelude::*;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::Path;
use std::str::FromStr;
use tidemill_domain::pool::command::Admitted;
use tidemill_domain::pool::weight::Lever;
use tidemill_domain::pool::{Holder, PoolName, UnitRequest};
use tidemill_engine::SystemIds;
use tidemill_engine::pool::{AcquirePart, AcquireRequest};
use tidemill_store::pool::PoolRecord;

const LEASE_MIN_SECONDS: u64 = 2;

/// `NAME`, `NAME=UNITS` or `NAME=UNITS:MIN`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PoolSpec {
    pub(super) pool: String,
    units: Option<NonZeroU32>,
    least: Option<NonZeroU32>,
}

impl FromStr for PoolSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.parse::<NonZeroU32>().map(Some).map_err(|_| format!("{text:?} is not a number of units"))
        };
        let Some((pool, units)) = text.split_once('=') else {
            return Ok(Self { pool: text.to_owned(), units: None, least: None });
        };
        let (units, least) = match units.split_once(':') {
            Some((units, least)) => (number(units)?, number(least)?),
            None => (number(units)?, None),
        };
        Ok(Self { pool: pool.to_owned(), units, least })
    }
}

pub(super) struct Request {
    pub(super) ask: AcquireRequest,
    by_pool: BTreeMap<PoolName, UnitRequest>,
}

impl Request {
    pub(super) fn new(arguments: &Run, pools: Vec<PoolRecord>) -> Result<Self> {
        let mut parts: Vec<AcquirePart> = Vec::with_capacity(pools.len());
        let mut by_pool = BTreeMap::new();
        for (spec, record) in arguments.pools.iter().zip(pools) {
            let settings = record.settings;
            if parts.iter().any(|part| part.pool == settings.name) {
                let what = format!("the pool {} is named twice", settings.name);
                return Err(Failure::new(Code::Usage, what, "name each pool once"));
            }
            let (units, least) = (spec.units.or(arguments.units), spec.least.or(arguments.min));
            if let Some((most, least)) = units.zip(least)
                && least > most
            {
                let name = settings.name;
                let what =
                    format!("the minimum of {least} units of {name} is larger than the {most} requested");
                return Err(Failure::new(Code::Usage, what, "raise --units or lower --min"));
            }
            let asked =
                UnitRequest::new(&settings, units, least, arguments.hint.as_deref()).map_err(|too_long| {
                    let fix = "give the hint comment alone, without the rest of the statement";
                    Failure::new(Code::HintTooLong, too_long.to_string(), fix)
                })?;
            parts.push(AcquirePart {
                least: asked.least,
                ..AcquirePart::new(settings.name.clone(), Some(asked.parallel))
            });
            by_pool.insert(settings.name, asked);
        }
        if arguments.lease.as_secs() < LEASE_MIN_SECONDS {
            let what = format!("--lease is shorter than {LEASE_MIN_SECONDS}s");
            return Err(Failure::new(Code::Usage, what, "use a longer time, such as 60s"));
        }
        let ask = AcquireRequest {
            parts,
            holder: holder(arguments)?,
            class: arguments.class,
            table: arguments.table.clone(),
            hint: arguments.hint.clone(),
            lease_for: Some(arguments.lease),
            deadline: None,
            call: None,
        };
        Ok(Self { ask, by_pool })
    }

    /// Prints what is odd about the hint.
    pub(super) fn warn(&self, context: &Context) {
        for warning in UnitRequest::warnings_of(self.by_pool.values()) {
            context.note(&format!("warning: {}", warning.text()));
        }
    }

    /// The hint for the granted degree, if there is a hint.
    pub(super) fn hint(&self, parts: &[Admitted]) -> Result<Option<String>> {
        let granted =
            parts.iter().filter_map(|part| Some((self.by_pool.get(&part.pool)?, part.ticket.granted?)));
        // The smallest grant counts. Pools that grant sessions do not lower the hint.
        let Some((asked, granted)) =
            granted.min_by_key(|(asked, granted)| (asked.lever == Lever::Sessions, *granted))
        else {
            return Ok(None);
        };
        asked.hint_override(granted).map_err(|refusal| {
            let what = format!("the hint cannot be lowered to {granted}");
            let fix =
                "write its degree as a hint, PARALLEL(8) or PARALLEL(alias 8); see `tidemill hint parse`";
            Failure::new(Code::HintNotRewritten, what, fix).because(refusal)
        })
    }
}

fn holder(arguments: &Run) -> Result<Holder> {
    let program = arguments.command.first().map(OsString::as_os_str).unwrap_or_default();
    let program = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let name = arguments.name.as_deref().unwrap_or(&program);
    Holder::run(name, &format!("run-{}", SystemIds.request())).map_err(|_| {
        let what = format!("{name:?} is not a valid name of a run");
        Failure::new(Code::Usage, what, "choose another one with --name")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_named_alone_with_units_or_with_both() {
        let spec = |text: &str| {
            text.parse::<PoolSpec>()
                .map(|spec| (spec.pool, spec.units.map(NonZeroU32::get), spec.least.map(NonZeroU32::get)))
        };

        assert_eq!(spec("etl"), Ok(("etl".into(), None, None)));
        assert_eq!(spec("etl=8"), Ok(("etl".into(), Some(8), None)));
        assert_eq!(spec("4=16:2"), Ok(("4".into(), Some(16), Some(2))));
        for bad in ["etl=", "etl=0", "etl=8:", "etl=8:0", "etl=-1", "etl=8:2:1"] {
            assert!(spec(bad).is_err(), "{bad}");
        }
    }
}
