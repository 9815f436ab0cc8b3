//! Tables that a file has once per name: `[alert.rules.NAME]`, `[alert.webhooks.NAME]`, `[jwt.issuers.NAME]`,
//! `[lambda.keys.NAME]`, `[connections.NAME]`, `[pools.probe.NAME]`, `[outbox.kafka.routes.NAME]` and `[render.keys.NAME]`.
//!
//! Their keys are templates: the word NAME in a path stands for what the user chose. They are set in files only,
//! since a variable could not tell a name from a key.

use super::choice::{JwtAlgorithm, WebhookFormat};
use super::key::{Key, Kind};
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
    pub(super) fields: &'static [&'static Key],
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
    fn allows(self, name: &str) -> bool {
        match self {
            Self::Own => rule::is_name(name),
            Self::Pool => name.parse::<PoolName>().is_ok(),
        }
    }

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

const fn field(path: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { path, kind, default, doc }
}

const DAY: Kind = Kind::Duration { least: Duration::ZERO, most: rule::LONGEST };

/// Longest name of a signal that is worth checking further.
const NAME: Kind = Kind::Text { longest: 63 };

static SIGNAL: Key = field("alert.rules.NAME.signal", NAME, None, "The signal that the rule watches.");
static ABOVE: Key =
    field("alert.rules.NAME.above", Kind::Decimal, None, "The threshold that values must not exceed.");
static BELOW: Key =
    field("alert.rules.NAME.below", Kind::Decimal, None, "The threshold that values must reach.");
static AGGREGATE: Key = field(
    "alert.rules.NAME.aggregate",
    Kind::Word(Aggregate::NAMES),
    Some("last"),
    "How the values of the window become one.",
);
static WINDOW: Key = field("alert.rules.NAME.window", DAY, Some("1m"), "How far back values count.");
static FOR: Key = field(
    "alert.rules.NAME.for",
    DAY,
    Some("0s"),
    "How long the threshold is passed before the alert fires.",
);
static SEVERITY: Key = field(
    "alert.rules.NAME.severity",
    Kind::Word(Severity::NAMES),
    Some("warning"),
    "How much the alert matters.",
);
static CHANNELS: Key =
    field("alert.rules.NAME.channels", Kind::Names, Some("log"), "Who is told: log, or names of webhooks.");
static ENABLED: Key =
    field("alert.rules.NAME.enabled", Kind::Truth, Some("true"), "Whether the rule is evaluated.");

static URL: Key = field("alert.webhooks.NAME.url", Kind::WebhookUrl, None, "Where notices are posted to.");
static SECRET: Key =
    field("alert.webhooks.NAME.secret", Kind::Secret, None, "The secret by which notices are signed.");
static ALLOW_PRIVATE: Key = field(
    "alert.webhooks.NAME.allow_private",
    Kind::Truth,
    Some("false"),
    "Whether the webhook may lie at a private or local address.",
);

static FORMAT: Key = field(
    "alert.webhooks.NAME.format",
    Kind::Word(WebhookFormat::NAMES),
    Some("tidemill"),
    "In which form notices are posted.",
);

pub(super) static RULES: Section = Section {
    path: "alert.rules",
    naming: Naming::Own,
    fields: &[&SIGNAL, &ABOVE, &BELOW, &AGGREGATE, &WINDOW, &FOR, &SEVERITY, &CHANNELS, &ENABLED],
};

/// Who is told by HTTP.
pub(super) static WEBHOOKS: Section = Section {
    path: "alert.webhooks",
    naming: Naming::Own,
    fields: &[&URL, &SECRET, &ALLOW_PRIVATE, &FORMAT],
};

const LINE: Kind = Kind::Text { longest: 500 };

static ISSUER: Key = field("jwt.issuers.NAME.issuer", LINE, None, "The claim iss of its tokens.");
static AUDIENCE: Key = field("jwt.issuers.NAME.audience", LINE, None, "The claim aud of its tokens.");
static ALGORITHM: Key = field(
    "jwt.issuers.NAME.algorithm",
    Kind::Word(JwtAlgorithm::NAMES),
    Some("rs256"),
    "The algorithm of its signatures.",
);
static SHARED: Key = field("jwt.issuers.NAME.secret", Kind::Secret, None, "The shared secret, for hs256.");
static PUBLIC_KEY: Key = field(
    "jwt.issuers.NAME.public_key",
    LINE,
    None,
    "The file of its public key in PEM, for rs256 and es256.",
);
static ROLE_CLAIM: Key =
    field("jwt.issuers.NAME.role_claim", LINE, Some("role"), "The claim that holds the role of the caller.");

/// Whose JSON Web Tokens the server accepts.
pub(super) static ISSUERS: Section = Section {
    path: "jwt.issuers",
    naming: Naming::Own,
    fields: &[&ISSUER, &AUDIENCE, &ALGORITHM, &SHARED, &PUBLIC_KEY, &ROLE_CLAIM],
};

static CONNECTION_URL: Key =
    field("connections.NAME.url", Kind::Url, None, "The database that jobs read from by this name.");
static CONNECTION_PASSWORD: Key =
    field("connections.NAME.password", Kind::Secret, None, "Its password, which does not stand in the URL.");

/// Databases that job files name.
pub(super) static CONNECTIONS: Section =
    Section { path: "connections", naming: Naming::Own, fields: &[&CONNECTION_URL, &CONNECTION_PASSWORD] };

static PROBE_COMMAND: Key = field(
    "pools.probe.NAME.command",
    Kind::Command,
    None,
    "The program that counts the sessions of leases in doubt.",
);
static PROBE_EVERY: Key = field(
    "pools.probe.NAME.every",
    Kind::Duration { least: Duration::from_secs(1), most: Duration::from_secs(86_400) },
    Some("1m"),
    "How often it is run while a lease is in doubt.",
);
static PROBE_TIMEOUT: Key = field(
    "pools.probe.NAME.timeout",
    Kind::Duration { least: Duration::from_millis(100), most: Duration::from_secs(3_600) },
    Some("30s"),
    "How long it may take.",
);

/// Programs that look after leases in doubt, by the name of the pool.
pub(super) static PROBES: Section = Section {
    path: "pools.probe",
    naming: Naming::Pool,
    fields: &[&PROBE_COMMAND, &PROBE_EVERY, &PROBE_TIMEOUT],
};

static KEY_ID: Key = field(
    "lambda.keys.NAME.id",
    Kind::Text { longest: 128 },
    None,
    "The access key id, which callers send with every request.",
);
static KEY_SECRET: Key =
    field("lambda.keys.NAME.secret", Kind::Secret, None, "The secret access key, by which they sign.");

/// Whose signed calls in the form of AWS Lambda the server accepts.
pub(super) static KEYS: Section =
    Section { path: "lambda.keys", naming: Naming::Own, fields: &[&KEY_ID, &KEY_SECRET] };

static ROUTE_EVENT_TYPE: Key = field(
    "outbox.kafka.routes.NAME.event_type",
    Kind::Text { longest: 200 },
    None,
    "The type of the events; with * at its end, all types that begin so.",
);
static ROUTE_TOPIC: Key = field(
    "outbox.kafka.routes.NAME.topic",
    Kind::Text { longest: 249 },
    None,
    "The topic that they go to instead of their own.",
);

/// Which topic of Kafka events of a type go to.
pub(super) static ROUTES: Section =
    Section { path: "outbox.kafka.routes", naming: Naming::Own, fields: &[&ROUTE_EVENT_TYPE, &ROUTE_TOPIC] };

static RENDER_KEY_SECRET: Key = field(
    "render.keys.NAME.secret",
    Kind::Secret,
    None,
    "The key: 32 random bytes in base64 or as 64 hexadecimal digits.",
);

/// Keys with which the data of renders is encrypted.
pub(super) static RENDER_KEYS: Section =
    Section { path: "render.keys", naming: Naming::Own, fields: &[&RENDER_KEY_SECRET] };

static ALL: [&Section; 8] =
    [&RULES, &WEBHOOKS, &ISSUERS, &KEYS, &CONNECTIONS, &PROBES, &ROUTES, &RENDER_KEYS];

/// The tables that hold nothing but sections. A section may also stand at the top, or among keys.
const GROUPS: [&str; 2] = ["alert", "jwt"];

/// What may stand at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// The table that holds the sections.
    Group,
    /// The table that holds the named ones.
    Names(&'static Section),
    Entry(&'static Section),
    /// One key of one of them.
    Field(&'static Key),
    /// Below the sections, but no name and no key.
    Nothing,
}

/// What may stand at `path`; nothing when it is not about sections.
pub(super) fn place(path: &str) -> Option<Place> {
    if GROUPS.contains(&path) {
        return Some(Place::Group);
    }
    let below = |section: &Section| match path.strip_prefix(section.path) {
        Some(rest) if rest.is_empty() || rest.starts_with('.') => Some(rest),
        _ => None,
    };
    let Some((section, rest)) =
        ALL.into_iter().find_map(|section| below(section).map(|rest| (section, rest)))
    else {
        let first = path.split('.').next().unwrap_or(path);
        return GROUPS.contains(&first).then_some(Place::Nothing);
    };
    let mut words = rest.split('.').skip(1);
    let (name, leaf, more) = (words.next(), words.next(), words.next());
    Some(match (name, leaf, more) {
        (None, ..) => Place::Names(section),
        (Some(name), None, _) if section.naming.allows(name) => Place::Entry(section),
        (Some(_), Some(leaf), None) => section.field(leaf).map_or(Place::Nothing, Place::Field),
        _ => Place::Nothing,
    })
}

/// The names that may stand directly below `table`, where they are fixed.
pub(super) fn names_below(table: &str) -> Vec<&'static str> {
    match place(table) {
        _ if table.is_empty() => {
            let at_top = ALL.into_iter().map(|section| section.path).filter(|path| !path.contains('.'));
            GROUPS.into_iter().chain(at_top).collect()
        }
        Some(Place::Group) => {
            let inside = ALL.into_iter().filter(|section| section.path.starts_with(&format!("{table}.")));
            inside.map(|section| leaf_of(section.path)).collect()
        }
        Some(Place::Entry(section)) => section.fields.iter().map(|key| key.leaf()).collect(),
        Some(_) => Vec::new(),
        // A table of keys that also holds a section.
        None => below(table).map(|section| leaf_of(section.path)).collect(),
    }
}

/// Whether a section lies directly below `table`, beside its keys.
pub(super) fn is_above_one(table: &str) -> bool {
    below(table).next().is_some()
}

fn below(table: &str) -> impl Iterator<Item = &'static Section> {
    let above = |section: &Section| section.path.rsplit_once('.').map(|(above, _)| above);
    ALL.into_iter().filter(move |section| above(section) == Some(table))
}

impl Section {
    /// The template of a key.
    pub(super) fn field(&self, leaf: &str) -> Option<&'static Key> {
        self.fields.iter().copied().find(|key| key.leaf() == leaf)
    }
}

/// Whether a key is a template of a section.
pub(super) fn is_template(key: &Key) -> bool {
    ALL.iter().any(|section| section.fields.iter().any(|field| field.path == key.path))
}

fn leaf_of(path: &'static str) -> &'static str {
    path.rsplit('.').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_place() {
        assert_eq!(place("alert"), Some(Place::Group));
        assert_eq!(place("alert.rules"), Some(Place::Names(&RULES)));
        assert_eq!(place("alert.webhooks.pager"), Some(Place::Entry(&WEBHOOKS)));
        assert_eq!(place("alert.rules.slow.for"), Some(Place::Field(&FOR)));
        assert_eq!(place("lambda.keys.etl.secret"), Some(Place::Field(&KEY_SECRET)));
        assert_eq!((place("lambda"), place("lambda.function")), (None, None));
        assert_eq!(names_below("lambda"), ["keys"]);
        assert_eq!(place("connections"), Some(Place::Names(&CONNECTIONS)));
        assert_eq!(place("connections.shop"), Some(Place::Entry(&CONNECTIONS)));
        assert_eq!(place("connections.shop.url"), Some(Place::Field(&CONNECTION_URL)));
        assert_eq!(place("pools.probe.ADW"), Some(Place::Entry(&PROBES)));
        assert_eq!(place("pools.probe.ADW.every"), Some(Place::Field(&PROBE_EVERY)));
        assert_eq!(place("render.keys.k2026.secret"), Some(Place::Field(&RENDER_KEY_SECRET)));
        assert!(is_above_one("pools") && !is_above_one("log") && !is_above_one("pools.probe"));
        for path in [
            "pools.probe.-x",
            "connections.Shop",
            "connections.shop.user",
            "alert.rule",
            "alert.rules.Slow",
            "alert.rules.slow.fro",
            "alert.rules.slow.for.x",
        ] {
            assert_eq!(place(path), Some(Place::Nothing), "{path}");
        }
        for path in [
            "",
            "pools",
            "pools.probes",
            "alerts",
            "log",
            "log.level",
            "alerts.rules",
            "connection",
            "connectionss.a",
        ] {
            assert_eq!(place(path), None, "{path}");
        }
    }

    #[test]
    fn templates_are_named_by_their_section_and_described() {
        for section in ALL {
            for key in section.fields {
                assert_eq!(key.path, format!("{}.NAME.{}", section.path, key.leaf()));
                assert!(key.doc.ends_with('.') && is_template(key), "{}", key.path);
            }
        }
        assert!(!is_template(&super::super::key::LOG_LEVEL));
    }
}
