//! The rules that are there without any configuration. Pillars add theirs here.

use super::channel::LOG;
use super::signal::{DATABASE_SECONDS, PROCESSES_DIED};
use std::time::Duration;
use tidemill_domain::alert::{Aggregate, Condition, Rule, RuleFields, Severity};

/// The shipped rules. Configuration may change single fields of them, or switch them off.
pub fn default_rules() -> Vec<Rule> {
    let minute = Duration::from_secs(60);
    let defaults = RuleFields {
        name: "process_died".to_owned(),
        signal: PROCESSES_DIED.to_owned(),
        condition: Condition::Above(0.0),
        aggregate: Aggregate::Last,
        window: minute,
        hold: Duration::ZERO,
        severity: Severity::Warning,
        channels: vec![LOG.to_owned()],
    };
    let database_slow = RuleFields {
        name: "database_slow".to_owned(),
        signal: DATABASE_SECONDS.to_owned(),
        condition: Condition::Above(1.0),
        aggregate: Aggregate::Average,
        hold: minute,
        ..defaults.clone()
    };
    let rules = [defaults, database_slow].map(Rule::new);
    rules.map(|rule| rule.expect("the shipped rules keep to the bounds of a rule")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::signal::KNOWN;

    #[test]
    fn the_shipped_rules_watch_signals_that_exist() {
        let rules = default_rules();

        assert!(rules.iter().all(|rule| KNOWN.iter().any(|(name, _)| *name == rule.signal())));
        assert_eq!(rules.iter().map(Rule::name).collect::<Vec<_>>(), ["process_died", "database_slow"]);
    }
}
