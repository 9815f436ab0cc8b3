//! Channels that notices are delivered to. The log is here; channels that need a network are in the server.

use super::Message;
use crate::BoxFuture;
use std::fmt;
use tidemill_domain::alert::{Notice, Severity};

pub const LOG: &str = "log";

pub type Delivering<'a> = BoxFuture<'a, Result<(), DeliveryError>>;

pub trait Channel: fmt::Debug + Send + Sync {
    fn name(&self) -> &str;

    /// Delivers once. The same message may come again if its delivery could not be recorded.
    fn deliver<'a>(&'a self, message: &'a Message) -> Delivering<'a>;
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct DeliveryError {
    pub retry: bool,
    /// Stored and shown, so it must not contain a secret.
    pub why: String,
}

impl DeliveryError {
    /// May succeed later: no answer, or the receiver was busy.
    pub fn temporary(why: impl Into<String>) -> Self {
        Self { retry: true, why: why.into() }
    }

    /// Will never succeed: the receiver rejected the message.
    pub fn permanent(why: impl Into<String>) -> Self {
        Self { retry: false, why: why.into() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LogChannel;

impl Channel for LogChannel {
    fn name(&self) -> &str {
        LOG
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Delivering<'a> {
        let announcement = &message.announcement;
        let (rule, subject, text) =
            (announcement.rule.as_str(), announcement.subject.as_str(), announcement.summary.as_str());
        match (announcement.notice, announcement.severity) {
            (Notice::Resolved, _) | (Notice::Fired, Severity::Info) => {
                tracing::info!(alert.rule = rule, alert.subject = subject, "alert: {text}");
            }
            (Notice::Fired, Severity::Warning) => {
                tracing::warn!(alert.rule = rule, alert.subject = subject, "alert: {text}");
            }
            (Notice::Fired, Severity::Critical) => {
                tracing::error!(alert.rule = rule, alert.subject = subject, "alert: {text}");
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
