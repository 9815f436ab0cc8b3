//! Tables that a file has once per name: `[alert.rules.NAME]`, `[alert.webhooks.NAME]`, `[jwt.issuers.NAME]`,
//! `[lambda.keys.NAME]`, `[connections.NAME]`, `[pools.probe.NAME]`, `[outbox.kafka.routes.NAME]` and `[render.keys.NAME]`.
//!
//! Their keys are templates: the word NAME in a path stands for what the user chose. They are set in files only,
//! since a variable could not tell a name from a key.

use super::choice::{JwtAlgorithm, WebhookFormat};
use super::key::{Key, Kind, duration, text};
use std::time::Duration;
use tidemill_domain::alert::rule::{self, Aggregate, Severity};
use tidemill_domain::pool::PoolName;

/// A table per name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Section {
    /// The path of the table that holds the named ones.
    pub(super) path: &'static str,
    /// What a name may be.
    pub(super) naming: Naming,
    /// The keys of each, as templates, in the order in which they are shown.
    pub(super) fields: &'static [Key],
}

/// What may be the name of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Naming {
    /// A name that somebody chose here.
    Own,
    /// The name of a pool, as far as TOML takes it for one word.
    Pool,
}

impl Naming {
    /// What is allowed, as it is told to people.
    pub(super) const fn rule(self) -> &'static str {
        match self {
            Self::Own => "a name is 1 to 63 of a-z, 0-9, _ and -, starting with a letter",
            Self::Pool => {
                "the name of a pool is 1 to 64 of A-Z, a-z, 0-9, _ and - here, starting with a letter or digit"
            }
        }
    }
}

const DAY: Kind = Kind::Duration { least: Duration::ZERO, most: rule::LONGEST };

/// Declares a section with the keys of each of its tables: `name, kind, default, description`.
macro_rules! section {
    (
        $(#[$about:meta])*
        $name:ident $path:literal, $naming:expr;
        $($leaf:literal, $kind:expr, $default:expr, $doc:literal;)+
    ) => {
        $(#[$about])*
        pub(super) static $name: Section = Section {
            path: $path,
            naming: $naming,
            fields: &[$(Key {
                path: concat!($path, ".NAME.", $leaf),
                kind: $kind,
                default: $default,
                doc: $doc,
            },)+],
        };
    };
}

section! {
    RULES "alert.rules", Naming::Own;
    "signal", text(63), None,
        "The signal that the rule watches.";
    "above", Kind::Decimal, None,
        "The threshold that values must not exceed.";
    "below", Kind::Decimal, None,
        "The threshold that values must reach.";
    "aggregate", Kind::Word(Aggregate::NAMES), Some("last"),
        "How the values of the window become one.";
    "window", DAY, Some("1m"),
        "How far back values count.";
    "for", DAY, Some("0s"),
        "How long the threshold is passed before the alert fires.";
    "severity", Kind::Word(Severity::NAMES), Some("warning"),
        "How much the alert matters.";
    "channels", Kind::Names, Some("log"),
        "Who is told: log, or names of webhooks.";
    "enabled", Kind::Truth, Some("true"),
        "Whether the rule is evaluated.";
}

section! {
    /// Who is told by HTTP.
    WEBHOOKS "alert.webhooks", Naming::Own;
    "url", Kind::WebhookUrl, None,
        "Where notices are posted to.";
    "secret", Kind::Secret, None,
        "The secret by which notices are signed.";
    "allow_private", Kind::Truth, Some("false"),
        "Whether the webhook may lie at a private or local address.";
    "format", Kind::Word(WebhookFormat::NAMES), Some("tidemill"),
        "In which form notices are posted.";
}

section! {
    /// Whose JSON Web Tokens the server accepts.
    ISSUERS "jwt.issuers", Naming::Own;
    "issuer", text(500), None,
        "The claim iss of its tokens.";
    "audience", text(500), None,
        "The claim aud of its tokens.";
    "algorithm", Kind::Word(JwtAlgorithm::NAMES), Some("rs256"),
        "The algorithm of its signatures.";
    "secret", Kind::Secret, None,
        "The shared secret, for hs256.";
    "public_key", text(500), None,
        "The file of its public key in PEM, for rs256 and es256.";
    "role_claim", text(500), Some("role"),
        "The claim that holds the role of the caller.";
}

section! {
    /// Databases that job files name.
    CONNECTIONS "connections", Naming::Own;
    "url", Kind::Url, None,
        "The database that jobs read from by this name.";
    "password", Kind::Secret, None,
        "Its password, which does not stand in the URL.";
}

section! {
    /// Programs that look after leases in doubt, by the name of the pool.
    PROBES "pools.probe", Naming::Pool;
    "command", Kind::Command, None,
        "The program that counts the sessions of leases in doubt.";
    "every", duration(1_000, 86_400), Some("1m"),
        "How often it is run while a lease is in doubt.";
    "timeout", duration(100, 3_600), Some("30s"),
        "How long it may take.";
}

section! {
    /// Whose signed calls in the form of AWS Lambda the server accepts.
    KEYS "lambda.keys", Naming::Own;
    "id", text(128), None,
        "The access key id, which callers send with every request.";
    "secret", Kind::Secret, None,
        "The secret access key, by which they sign.";
}

section! {
    /// Which topic of Kafka events of a type go to.
    ROUTES "outbox.kafka.routes", Naming::Own;
    "event_type", text(200), None,
        "The type of the events; with * at its end, all types that begin so.";
    "topic", text(249), None,
        "The topic that they go to instead of their own.";
}

section! {
    /// Keys with which the data of renders is encrypted.
    RENDER_KEYS "render.keys", Naming::Own;
    "secret", Kind::Secret, None,
        "The key: 32 random bytes in base64 or as 64 hexadecimal digits.";
}

pub(super) static ALL: [&Section; 8] =
    [&RULES, &WEBHOOKS, &ISSUERS, &KEYS, &CONNECTIONS, &PROBES, &ROUTES, &RENDER_KEYS];

impl Section {
    pub(super) fn allows(&self, name: &str) -> bool {
        match self.naming {
            Naming::Own => rule::is_name(name),
            Naming::Pool => name.parse::<PoolName>().is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_named_by_their_section_and_described() {
        for section in ALL {
            for key in section.fields {
                assert_eq!(key.path, format!("{}.NAME.{}", section.path, key.leaf()));
                assert!(key.doc.ends_with('.') && key.is_of_section(), "{}", key.path);
            }
        }
        assert!(!super::super::key::find("log.level").unwrap().is_of_section());
    }
}
