//! The sections `[pools.probe.NAME]`: programs that look after leases in doubt.

use super::error::ConfigError;
use super::layer::Given;
use super::load::SectionValue;
use super::section::PROBES;
use super::sources::Sources;
use super::table::{Entry, duration, entry, first_origin, list, names, refuse, shown};
use std::collections::BTreeMap;
use tidemill_engine::pool::Probe;

/// The probes, and each value as it is shown; what is wrong is added to `problems`.
pub(super) fn settle(
    given: &BTreeMap<String, Given>,
    sources: &Sources,
    problems: &mut Vec<ConfigError>,
) -> (Vec<Probe>, Vec<SectionValue>) {
    let (mut probes, mut values) = (Vec::new(), Vec::new());
    for name in names(&PROBES, given) {
        let Some(entry) = entry(&PROBES, &name, Entry::new(), given, sources, problems) else { continue };
        match probe(&name, &entry, given) {
            Ok(probe) => {
                values.extend(shown(&PROBES, &name, &entry));
                probes.push(probe);
            }
            Err(problem) => problems.push(problem),
        }
    }
    (probes, values)
}

fn probe(name: &str, entry: &Entry, given: &BTreeMap<String, Given>) -> Result<Probe, ConfigError> {
    let refused = |why: &str, fix: &str| {
        let path = format!("{}.{name}", PROBES.path);
        refuse(path, &first_origin(&PROBES, name, given), None, why.to_owned(), fix.to_owned())
    };
    let command = list(entry, "command").to_vec();
    if command.is_empty() {
        return Err(refused(
            "a probe has a command, and this one has none",
            "add command = [\"/path/of/the/program\"]",
        ));
    }
    let pool = name.parse().map_err(|_| refused(PROBES.naming.rule(), "correct the name of the pool"))?;
    Ok(Probe { pool, command, every: duration(entry, "every"), timeout: duration(entry, "timeout") })
}
