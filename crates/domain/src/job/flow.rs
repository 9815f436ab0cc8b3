//! Which step follows which exit code.
//!
//! A flow is an ordered list of states (steps and decisions) and transitions between them. A state without transitions
//! goes to the next in the list when it is `COMPLETED`, and fails the job otherwise. For a state with transitions, an
//! exit code that none of them matches fails the job.

use regex::Regex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The next state in the list; after the last one the job completes.
    Next,
    To(String),
    /// The job completes; with this exit code, if there is one.
    End(Option<String>),
    Fail,
    /// The job stops. A restart continues with this state, or has nothing left to do.
    Stop(Option<String>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transition {
    pub on: String,
    pub to: Target,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    states: Vec<String>,
    transitions: BTreeMap<String, Vec<Transition>>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadFlow {
    #[error("it has no step")]
    Empty,
    #[error("two steps are called {0:?}")]
    Twice(String),
    #[error("a transition names the step {0:?}, which does not exist")]
    Unknown(String),
    #[error("no transition leads to the step {0:?}")]
    Unreachable(String),
    #[error("no way leads from the step {0:?} to an end of the job")]
    Endless(String),
    #[error("a transition of the step {0:?} has an empty pattern")]
    EmptyPattern(String),
}

impl Flow {
    pub fn of(states: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { states: states.into_iter().map(Into::into).collect(), transitions: BTreeMap::new() }
    }

    /// Of two with the same pattern the first counts.
    pub fn on(&mut self, from: &str, pattern: &str, to: Target) {
        let of_state = self.transitions.entry(from.to_owned()).or_default();
        if of_state.iter().any(|known| known.on == pattern) {
            return;
        }
        of_state.push(Transition { on: pattern.to_owned(), to });
        of_state.sort_by_cached_key(|transition| specificity(&transition.on));
    }

    pub fn start(&self) -> Option<&str> {
        self.states.first().map(String::as_str)
    }

    pub fn is_plain(&self) -> bool {
        self.transitions.is_empty()
    }

    /// The target from `state` after this exit code, never [`Target::Next`]. None when no transition matches.
    pub fn after(&self, state: &str, exit_code: &str) -> Option<Target> {
        let target = match self.transitions.get(state) {
            Some(own) => own.iter().find(|transition| matches(&transition.on, exit_code))?.to.clone(),
            None if exit_code == "COMPLETED" => Target::Next,
            None => Target::Fail,
        };
        Some(self.resolved(state, target))
    }

    /// Replaces `Next` by its target.
    fn resolved(&self, state: &str, target: Target) -> Target {
        if target != Target::Next {
            return target;
        }
        let next = self.states.iter().skip_while(|name| *name != state).nth(1);
        next.map_or(Target::End(None), |next| Target::To(next.clone()))
    }

    fn targets(&self, state: &str) -> Vec<Target> {
        let targets = match self.transitions.get(state) {
            Some(own) => own.iter().map(|transition| transition.to.clone()).collect(),
            None => vec![Target::Next, Target::Fail],
        };
        targets.into_iter().map(|target| self.resolved(state, target)).collect()
    }

    pub fn check(&self) -> Result<(), BadFlow> {
        let first = self.start().ok_or(BadFlow::Empty)?;
        let mut known = BTreeSet::new();
        for state in &self.states {
            if !known.insert(state.as_str()) {
                return Err(BadFlow::Twice(state.clone()));
            }
        }
        for (from, transitions) in &self.transitions {
            if !known.contains(from.as_str()) {
                return Err(BadFlow::Unknown(from.clone()));
            }
            for transition in transitions {
                if transition.on.is_empty() {
                    return Err(BadFlow::EmptyPattern(from.clone()));
                }
                if let Target::To(to) | Target::Stop(Some(to)) = &transition.to
                    && !known.contains(to.as_str())
                {
                    return Err(BadFlow::Unknown(to.clone()));
                }
            }
        }
        let reachable = self.reachable(first);
        if let Some(lost) = self.states.iter().find(|state| !reachable.contains(state.as_str())) {
            return Err(BadFlow::Unreachable(lost.clone()));
        }
        match self.states.iter().find(|state| !self.ends(state)) {
            Some(endless) => Err(BadFlow::Endless(endless.clone())),
            None => Ok(()),
        }
    }

    fn reachable(&self, from: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.to_owned()];
        while let Some(state) = open.pop() {
            if seen.insert(state.clone()) {
                open.extend(self.targets(&state).into_iter().filter_map(|target| match target {
                    Target::To(to) | Target::Stop(Some(to)) => Some(to),
                    _ => None,
                }));
            }
        }
        seen
    }

    fn ends(&self, state: &str) -> bool {
        let is_end = |target: &Target| !matches!(target, Target::To(_));
        self.reachable(state).iter().any(|reached| self.targets(reached).iter().any(is_end))
    }
}

/// Patterns without `*` are tried first; then those with more `*`; with fewer `?`; the longer; by the alphabet.
fn specificity(pattern: &str) -> (bool, Reverse<usize>, usize, Reverse<usize>, Vec<u16>) {
    let (stars, marks) = (pattern.matches('*').count(), pattern.matches('?').count());
    let units: Vec<u16> = pattern.encode_utf16().collect();
    (stars > 0, Reverse(stars), marks, Reverse(units.len()), units)
}

/// `*` in the pattern matches any characters, `?` exactly one.
pub fn matches(pattern: &str, code: &str) -> bool {
    let whole = regex::escape(pattern).replace(r"\*", ".*").replace(r"\?", ".");
    Regex::new(&format!("(?s)^{whole}$")).is_ok_and(|pattern| pattern.is_match(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn to(name: &str) -> Target {
        Target::To(name.into())
    }

    #[test]
    fn a_plain_sequence_goes_on_when_a_step_completed_and_fails_otherwise() {
        let flow = Flow::of(["a", "b"]);

        assert_eq!(flow.after("a", "COMPLETED"), Some(to("b")));
        assert_eq!(flow.after("b", "COMPLETED"), Some(Target::End(None)));
        assert_eq!(flow.after("a", "FAILED"), Some(Target::Fail));
        assert_eq!(flow.after("a", "CUSTOM"), Some(Target::Fail));
    }

    #[test]
    fn patterns_are_asked_from_the_most_specific_on() {
        let mut patterns = vec!["*", "C*", "COMPLETED", "COMPLETED WITH*", "?OMPLETED", "*C*", "C?*"];
        patterns.sort_by_key(|pattern| specificity(pattern));

        assert_eq!(patterns, ["COMPLETED", "?OMPLETED", "*C*", "COMPLETED WITH*", "C*", "*", "C?*"]);
    }

    #[test]
    fn own_transitions_are_the_only_ones() {
        let mut flow = Flow::of(["a", "b", "rec"]);
        flow.on("a", "FAILED", to("rec"));
        flow.on("a", "FAILED", Target::Fail);
        flow.on("a", "C*", Target::Next);
        flow.on("b", "*", Target::End(Some("DONE".into())));

        assert_eq!(flow.after("a", "FAILED"), Some(to("rec")), "the first of two counts");
        assert_eq!(flow.after("a", "COMPLETED"), Some(to("b")));
        assert_eq!(flow.after("a", "WEIRD"), None);
        assert_eq!(flow.after("b", "FAILED"), Some(Target::End(Some("DONE".into()))));
        assert_eq!(flow.check(), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let flow = |states: &[&str], transitions: &[(&str, &str, Target)]| {
            let mut flow = Flow::of(states.iter().copied());
            for (from, on, to) in transitions {
                flow.on(from, on, to.clone());
            }
            flow.check()
        };

        assert_eq!(flow(&[], &[]), Err(BadFlow::Empty));
        assert_eq!(flow(&["a", "a"], &[]), Err(BadFlow::Twice("a".into())));
        assert_eq!(flow(&["a"], &[("a", "*", to("x"))]), Err(BadFlow::Unknown("x".into())));
        assert_eq!(flow(&["a"], &[("x", "*", Target::Fail)]), Err(BadFlow::Unknown("x".into())));
        assert_eq!(flow(&["a", "b"], &[("a", "*", Target::Fail)]), Err(BadFlow::Unreachable("b".into())));
        assert_eq!(flow(&["a"], &[("a", "*", to("a"))]), Err(BadFlow::Endless("a".into())));
        assert_eq!(flow(&["a"], &[("a", "", Target::Fail)]), Err(BadFlow::EmptyPattern("a".into())));
        assert_eq!(
            flow(&["a", "b"], &[("b", "*", to("a")), ("a", "X", Target::Fail), ("a", "*", to("b"))]),
            Ok(())
        );
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_obvious_recursion(pattern in "[ab*?]{0,8}", code in "[abc]{0,8}") {
            fn obvious(pattern: &[u8], code: &[u8]) -> bool {
                match (pattern.split_first(), code.split_first()) {
                    (None, None) => true,
                    (Some((b'*', rest)), _) if obvious(rest, code) => true,
                    (Some((b'*', _)), Some((_, rest))) => obvious(pattern, rest),
                    (Some((b'?', rest)), Some((_, tail))) => obvious(rest, tail),
                    (Some((p, rest)), Some((c, tail))) if p == c => obvious(rest, tail),
                    _ => false,
                }
            }
            prop_assert_eq!(matches(&pattern, &code), obvious(pattern.as_bytes(), code.as_bytes()));
        }

        #[test]
        fn the_order_of_patterns_is_total(a in "[AB*?]{1,6}", b in "[AB*?]{1,6}") {
            prop_assert_eq!(specificity(&a) == specificity(&b), a == b);
        }
    }
}
