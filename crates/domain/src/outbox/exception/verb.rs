//! What an operator may do with an excepted event.

use super::super::event::{BadEvent, Headers, Payload, check_headers, check_payload, check_topic};
use super::StateWord;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    Skip,
    /// Try it again at once, as if it had never been refused.
    Replay,
    /// Publish something else in its place; then as a replay.
    Edit(Edit),
    /// Publish it elsewhere; then as a replay.
    Redirect(Redirect),
}

impl Verb {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Replay => "replay",
            Self::Edit(_) => "edit",
            Self::Redirect(_) => "redirect",
        }
    }

    /// Whether it can be done to events in this state. An order about all events of a kind passes over the others.
    pub const fn applies_to(&self, state: StateWord) -> bool {
        match (state, self) {
            (StateWord::Skipped, _) | (StateWord::Held, Self::Replay) => false,
            (StateWord::Waiting | StateWord::Held | StateWord::Parked, _) => true,
        }
    }
}

/// What is published in place of what an event says. What is not given stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    payload: Option<Payload>,
    headers: Option<Headers>,
}

impl Edit {
    pub fn new(payload: Option<Payload>, headers: Option<Headers>) -> Result<Self, BadEvent> {
        payload.as_ref().map(check_payload).transpose()?;
        headers.as_ref().map(check_headers).transpose()?;
        Ok(Self { payload, headers })
    }

    pub fn payload(&self) -> Option<&Payload> {
        self.payload.as_ref()
    }

    pub fn headers(&self) -> Option<&Headers> {
        self.headers.as_ref()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    topic: String,
}

impl Redirect {
    pub fn new(topic: impl Into<String>) -> Result<Self, BadEvent> {
        let topic = topic.into();
        check_topic(&topic)?;
        Ok(Self { topic })
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }
}
