//! The client settings that users may set: none that affects loss, order or partitioning.

use std::collections::BTreeMap;
use tidemill_domain::nearest::nearest;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The least and the greatest.
    Number(i64, i64),
    Truth,
    Word(&'static [&'static str]),
    Name,
}

const MINUTES: i64 = 60_000;

/// By librdkafka's names.
const ALLOWED: &[(&str, Kind)] = &[
    ("batch.num.messages", Kind::Number(1, 1_000_000)),
    ("batch.size", Kind::Number(1_000, 100_000_000)),
    ("broker.address.family", Kind::Word(&["any", "v4", "v6"])),
    ("client.dns.lookup", Kind::Word(&["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"])),
    ("client.id", Kind::Name),
    ("compression.level", Kind::Number(-1, 22)),
    ("connections.max.idle.ms", Kind::Number(0, 60 * MINUTES)),
    ("message.max.bytes", Kind::Number(1_000, 1_000_000_000)),
    ("metadata.max.age.ms", Kind::Number(1_000, 60 * MINUTES)),
    ("queue.buffering.max.kbytes", Kind::Number(1_000, 2_097_151)),
    ("queue.buffering.max.messages", Kind::Number(1, 10_000_000)),
    ("reconnect.backoff.max.ms", Kind::Number(0, 60 * MINUTES)),
    ("reconnect.backoff.ms", Kind::Number(0, 60 * MINUTES)),
    ("request.timeout.ms", Kind::Number(1, 15 * MINUTES)),
    ("retry.backoff.max.ms", Kind::Number(1, 5 * MINUTES)),
    ("retry.backoff.ms", Kind::Number(1, 5 * MINUTES)),
    ("socket.connection.setup.timeout.ms", Kind::Number(1_000, 60 * MINUTES)),
    ("socket.keepalive.enable", Kind::Truth),
    ("socket.nagle.disable", Kind::Truth),
    ("socket.timeout.ms", Kind::Number(10, 5 * MINUTES)),
    ("topic.metadata.refresh.interval.ms", Kind::Number(1_000, 60 * MINUTES)),
];

/// ```
/// # use tidemill_kafka::ClientOptions;
/// let options: ClientOptions = "client.id=shop, batch.size=200000".parse().unwrap();
/// assert_eq!(options.iter().collect::<Vec<_>>(), [("batch.size", "200000"), ("client.id", "shop")]);
/// assert!("acks=0".parse::<ClientOptions>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientOptions(BTreeMap<&'static str, String>);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadOption {
    /// No such setting, or it is not for users.
    #[error("{name:?} is no option of the Kafka client that may be set")]
    Unknown { name: String },
    /// The value is not allowed. The error does not repeat it, because it may be a secret.
    #[error("the option {name} takes {allowed}")]
    Value { name: &'static str, allowed: String },
    #[error("the option {name} is set twice")]
    Twice { name: &'static str },
}

impl BadOption {
    pub fn fix(&self) -> String {
        let names = || ALLOWED.iter().map(|(name, _)| *name);
        match self {
            Self::Unknown { name } => {
                let near = nearest(name, names()).map(|near| format!("did you mean {near}? "));
                let all = names().collect::<Vec<_>>().join(", ");
                format!("{}the options are {all}", near.unwrap_or_default())
            }
            Self::Value { name, .. } => format!("correct the value of {name}, or take it out"),
            Self::Twice { name } => format!("set {name} once"),
        }
    }
}

impl ClientOptions {
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

/// `name=value`, separated by commas.
impl std::str::FromStr for ClientOptions {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Self, BadOption> {
        let mut options = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim());
            let Some((name, kind)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
                return Err(BadOption::Unknown { name: name.chars().take(100).collect() });
            };
            if !kind.accepts(value) {
                return Err(BadOption::Value { name, allowed: kind.allowed() });
            }
            if options.insert(*name, value.to_owned()).is_some() {
                return Err(BadOption::Twice { name });
            }
        }
        Ok(Self(options))
    }
}

impl Kind {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Number(least, most) => {
                value.parse().is_ok_and(|number: i64| (least..=most).contains(&number))
            }
            Self::Truth => matches!(value, "true" | "false"),
            Self::Word(words) => words.contains(&value),
            Self::Name => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
                (1..=200).contains(&value.len()) && value.bytes().all(is_plain)
            }
        }
    }

    fn allowed(self) -> String {
        match self {
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Truth => "true or false".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Name => "a name of 1 to 200 letters, digits, '.', '_' and '-'".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_listed_in_order_and_once() {
        assert!(ALLOWED.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn what_decides_about_loss_order_or_partitions_cannot_be_set() {
        for name in [
            "acks",
            "enable.idempotence",
            "enable.gapless.guarantee",
            "delivery.timeout.ms",
            "message.timeout.ms",
            "partitioner",
            "max.in.flight",
            "sasl.password",
            "plugin.library.paths",
            "bootstrap.servers",
        ] {
            let error = format!("{name}=1").parse::<ClientOptions>().unwrap_err();
            assert_eq!(error, BadOption::Unknown { name: name.to_owned() });
            assert!(error.fix().contains("queue.buffering.max.messages"), "{}", error.fix());
        }
    }

    #[test]
    fn a_value_is_checked_by_its_type_and_not_repeated() {
        for text in [
            "batch.size",
            "batch.size=",
            "batch.size=1",
            "batch.size=x",
            "client.id=a b",
            "socket.keepalive.enable=1",
            "broker.address.family=v5",
        ] {
            let error = text.parse::<ClientOptions>().unwrap_err();
            assert!(matches!(error, BadOption::Value { .. }), "{text}: {error}");
        }
        let twice = "batch.size=1000,batch.size=1000".parse::<ClientOptions>().unwrap_err();
        assert_eq!(twice, BadOption::Twice { name: "batch.size" });
        assert!(!"client.id=my secret".parse::<ClientOptions>().unwrap_err().to_string().contains("secret"));
        assert_eq!(" , ".parse::<ClientOptions>(), Ok(ClientOptions::default()));
    }

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        let error = "queue.bufering.max.messages=5".parse::<ClientOptions>().unwrap_err();

        assert!(error.fix().starts_with("did you mean queue.buffering.max.messages?"), "{}", error.fix());
    }
}
