//! What a command finds in its environment: ours without settings and secrets, what the step is, the parameters, what a
//! pool has granted, and what the author adds.

use super::CommandSpec;
use crate::environment::passed_on;
use crate::job::scope::StepScope;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use tidemill_domain::job::command::{HINT_VARIABLE, PARALLELISM_VARIABLE, TOLD, UNITS_VARIABLE, variables};

/// The whole environment of a command.
pub(super) fn of(spec: &CommandSpec, scope: &StepScope) -> Result<BTreeMap<OsString, OsString>, String> {
    let told = told(scope)?;
    let mut all = BTreeMap::new();
    if spec.inherits {
        all.extend(passed_on());
    }
    all.extend(spec.passed.iter().filter_map(|name| Some((name.into(), env::var_os(name)?))));
    if let Some(granted) = scope.granted() {
        // The second so that a program reads the same as under `tidemill run`.
        for name in [PARALLELISM_VARIABLE, UNITS_VARIABLE] {
            all.insert(name.into(), granted.units.to_string().into());
        }
        all.extend(granted.hint.as_ref().map(|hint| (HINT_VARIABLE.into(), hint.into())));
    }
    for (name, value) in &spec.environment {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!("{name:?} is not the name of a variable"));
        }
        if told.contains_key(name) {
            return Err(format!("the variable {name} is set for every command and cannot be another"));
        }
        all.insert(name.into(), value.clone());
    }
    all.extend(told.into_iter().map(|(name, value)| (name.into(), value.into())));
    Ok(all)
}

/// What every command is told.
fn told(scope: &StepScope) -> Result<BTreeMap<String, String>, String> {
    let mut told = variables(scope.parameters()).map_err(|same| same.to_string())?;
    // In the order of their names.
    let values = [
        scope.job().to_owned(),
        scope.execution().to_string(),
        scope.step().to_owned(),
        scope.step_execution().to_string(),
        u8::from(scope.is_resumed()).to_string(),
    ];
    told.extend(TOLD.map(str::to_owned).into_iter().zip(values));
    Ok(told)
}
