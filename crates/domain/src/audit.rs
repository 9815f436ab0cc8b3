//! Audit entries: who changed which object, how, and why.

use crate::time::Timestamp;

crate::words! {
    #[derive(Hash)]
    pub enum Role {
        Viewer = "viewer",
        Operator = "operator",
        Admin = "admin",
        Worker = "worker",
        Requester = "requester",
        /// The command line with direct access to the database.
        Local = "local",
        /// Tidemill itself, for example when it finds a dead process.
        System = "system",
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor {
    /// Name of a person, token or process.
    pub name: String,
    pub role: Role,
    /// Set if the change came by HTTP.
    pub request_id: Option<String>,
}

impl Actor {
    pub fn system() -> Self {
        Self { name: "tidemill".to_owned(), role: Role::System, request_id: None }
    }
}

/// A line of the audit log before it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    pub actor: Actor,
    /// As `noun.verb`.
    pub action: String,
    /// As `noun/name`.
    pub object: String,
    pub from: Option<String>,
    pub to: Option<String>,
    pub reason: Option<String>,
}

/// Longer fields are cut, because an audit row must never fail a change.
pub const FIELD_CHARS_MAX: usize = 1000;

impl AuditEntry {
    pub fn new(actor: Actor, action: &str, object: &str) -> Self {
        Self {
            actor: Actor {
                name: bounded(&actor.name),
                role: actor.role,
                request_id: actor.request_id.as_deref().map(bounded),
            },
            action: bounded(action),
            object: bounded(object),
            from: None,
            to: None,
            reason: None,
        }
    }

    #[must_use]
    pub fn from_to(mut self, from: &str, to: &str) -> Self {
        self.from = Some(bounded(from));
        self.to = Some(bounded(to));
        self
    }

    #[must_use]
    pub fn because(self, reason: &str) -> Self {
        self.with_reason(Some(reason))
    }

    #[must_use]
    pub fn with_reason(mut self, reason: Option<&str>) -> Self {
        self.reason = reason.map(bounded);
        self
    }
}

/// Cuts a text, and drops NUL, which PostgreSQL cannot store.
fn bounded(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(FIELD_CHARS_MAX).collect()
}

pub fn reason(text: &str) -> Result<&str, BadReason> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err(BadReason::Empty),
        1..=FIELD_CHARS_MAX => Ok(text),
        _ => Err(BadReason::TooLong),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadReason {
    #[error("the reason is empty")]
    Empty,
    #[error("the reason is too long")]
    TooLong,
}

impl BadReason {
    pub fn fix(self) -> String {
        match self {
            Self::Empty => "say why in a few words".to_owned(),
            Self::TooLong => format!("use at most {FIELD_CHARS_MAX} characters"),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditRecord {
    /// Grows with time on one database.
    pub id: i64,
    /// By the database's clock.
    pub at: Timestamp,
    pub entry: AuditEntry,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_is_too_long_or_unstorable(text in any::<String>(), long in 0..3000_usize) {
            let text = text + &"가".repeat(long);
            let entry = AuditEntry::new(Actor::system(), &text, &text).because(&text).from_to(&text, &text);
            for field in [&entry.action, &entry.object, &entry.reason.unwrap(), &entry.from.unwrap()] {
                prop_assert!(field.chars().count() <= FIELD_CHARS_MAX && !field.contains('\0'));
            }
        }
    }

    #[test]
    fn a_reason_says_something() {
        use crate::audit::{BadReason, reason};
        assert_eq!(reason(" the file was replaced "), Ok("the file was replaced"));
        assert_eq!(reason(" "), Err(BadReason::Empty));
    }

    #[test]
    fn an_entry_keeps_both_states() {
        use crate::audit::{Actor, AuditEntry};
        let entry = AuditEntry::new(Actor::system(), "process.dead", "process/7").from_to("live", "dead");
        assert_eq!(entry.to.as_deref(), Some("dead"));
    }
}
