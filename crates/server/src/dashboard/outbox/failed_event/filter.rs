//! The filter of the list of failed events, as the query string has it.

use crate::dashboard::part::{given, query};
use crate::problem::Problem;
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::value::{self, MapDeserializer};
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_store::outbox::failed_event::FailedEventFilter;

/// All states but skipped.
const OPEN: &str = "open";

/// Empty fields are ignored.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FailedEventQuery {
    pub(super) state: String,
    pub(super) topic: String,
    pub(super) event_type: String,
    pub(super) aggregate_type: String,
    pub(super) aggregate_id: String,
    pub(super) error: String,
    pub(super) slot: String,
    pub(super) after: String,
    /// The action that was just done, and how many events it changed.
    pub(super) done: String,
    pub(super) count: String,
}

fn owned(text: &str) -> Option<String> {
    given(text).map(str::to_owned)
}

impl FailedEventQuery {
    /// Reads a form, which may have other fields too.
    pub(super) fn of_fields(fields: &[(String, String)]) -> Self {
        let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Self::deserialize(MapDeserializer::<_, value::Error>::new(fields)).unwrap_or_default()
    }

    /// Parked events by default.
    pub(super) fn states(&self) -> Result<Vec<StateWord>, Problem> {
        match self.state.trim() {
            "" => Ok(vec![StateWord::Parked]),
            OPEN => Ok(StateWord::OPEN.to_vec()),
            word => Ok(vec![word.parse().map_err(|error| {
                Problem::bad_request(format!("the state is {error}"), "choose one on the page")
            })?]),
        }
    }

    pub(super) fn state_word(&self) -> &str {
        given(&self.state).unwrap_or(StateWord::Parked.as_str())
    }

    pub(super) fn filter(&self) -> Result<FailedEventFilter, Problem> {
        let slot = given(&self.slot).map(|slot| slot.parse::<u8>()).transpose();
        let slot = slot.map_err(|_| {
            Problem::bad_request("the slot is not from 0 to 255", "enter a number from 0 to 255")
        })?;
        Ok(FailedEventFilter {
            states: self.states()?,
            slot: slot.map(Slot::new),
            aggregate_type: owned(&self.aggregate_type),
            aggregate_id: owned(&self.aggregate_id),
            topic: owned(&self.topic),
            event_type: owned(&self.event_type),
            error_contains: owned(&self.error),
        })
    }

    /// Whether there is a filter besides the state. Changing all matching events needs one.
    pub(super) fn is_narrow(&self) -> bool {
        self.chosen().any(|(name, _)| name != "state")
    }

    pub(super) fn after(&self) -> EventId {
        self.after.trim().parse().unwrap_or(EventId::ZERO)
    }

    pub(super) fn is_first(&self) -> bool {
        self.after() == EventId::ZERO
    }

    /// Names and values of the fields that filter.
    fn chosen(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = [
            ("state", &self.state),
            ("topic", &self.topic),
            ("event_type", &self.event_type),
            ("aggregate_type", &self.aggregate_type),
            ("aggregate_id", &self.aggregate_id),
            ("error", &self.error),
            ("slot", &self.slot),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, given(value)?)))
    }

    /// The query string, with `more` at its end.
    pub(super) fn query(&self, more: &str) -> String {
        query(self.chosen(), more)
    }

    pub(super) fn hidden(&self) -> Markup {
        html! { @for (name, value) in self.chosen() { input type="hidden" name=(name) value=(value); } }
    }

    /// Flags of the command line, quoted for a shell.
    pub(super) fn flags(&self) -> String {
        let chosen = self.chosen().filter(|(_, value)| *value != OPEN);
        let flag = |(name, value): (&str, &str)| {
            format!(" --{} '{}'", name.replace('_', "-"), value.replace('\'', r"'\''"))
        };
        chosen.map(flag).collect()
    }

    pub(super) fn text(&self) -> String {
        let texts = self.chosen().map(|(name, value)| format!("{} {value}", name.replace('_', " ")));
        texts.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_what_was_chosen_and_leaves_out_what_was_not() {
        let query =
            FailedEventQuery { topic: "a&b".into(), error: " ".into(), ..FailedEventQuery::default() };

        assert_eq!(query.query("after=7"), "?topic=a%26b&after=7");
        assert_eq!(FailedEventQuery::default().query(""), "");
        assert_eq!(query.flags(), " --topic 'a&b'");
        assert_eq!(
            FailedEventQuery { topic: "it's".into(), ..FailedEventQuery::default() }.flags(),
            r" --topic 'it'\''s'"
        );
    }

    #[test]
    fn a_state_alone_is_not_narrow_enough_to_act_on_all() {
        assert!(!FailedEventQuery { state: "parked".into(), ..FailedEventQuery::default() }.is_narrow());
        assert!(!FailedEventQuery { topic: " ".into(), ..FailedEventQuery::default() }.is_narrow());
        assert!(FailedEventQuery { error: "no".into(), ..FailedEventQuery::default() }.is_narrow());
    }

    #[test]
    fn parked_is_meant_when_nothing_is_said() {
        assert_eq!(FailedEventQuery::default().states().unwrap(), [StateWord::Parked]);
        assert_eq!(
            FailedEventQuery { state: "open".into(), ..FailedEventQuery::default() }.states().unwrap(),
            StateWord::OPEN
        );
        assert!(FailedEventQuery { state: "dead".into(), ..FailedEventQuery::default() }.states().is_err());
    }
}
