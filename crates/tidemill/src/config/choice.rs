//! The words that some keys choose from, each list as a type.

use std::fmt;
use std::str::FromStr;

/// The text is none of the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not one of {}", .names.join(", "))]
pub struct NotAChoice {
    /// The words that are.
    pub names: &'static [&'static str],
}

macro_rules! choices {
    ($($(#[$about:meta])+ $type:ident { $($(#[$doc:meta])+ $choice:ident = $word:literal,)+ })+) => {$(
        $(#[$about])+
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $type {
            $($(#[$doc])+ $choice,)+
        }

        impl $type {
            /// All choices, in the order in which they are offered.
            pub const ALL: &[Self] = &[$(Self::$choice,)+];
            /// The words of all choices, in the same order.
            pub const NAMES: &[&'static str] = &[$($word,)+];

            /// The word as it is configured.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$choice => $word,)+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = NotAChoice;

            fn from_str(text: &str) -> Result<Self, NotAChoice> {
                match text {
                    $($word => Ok(Self::$choice),)+
                    _ => Err(NotAChoice { names: Self::NAMES }),
                }
            }
        }
    )+};
}

choices! {
    /// In which form a webhook posts notices.
    WebhookFormat {
        /// Our own.
        Tidemill = "tidemill",
        /// That of Amazon SNS with a CloudWatch alarm.
        Sns = "sns",
    }

    /// When the schema is created or brought up to date without being asked.
    Init {
        /// At every start, on any database.
        Always = "always",
        /// At every start on SQLite; on a server only when asked.
        Embedded = "embedded",
        /// Only when asked.
        Never = "never",
    }

    /// What stands between us and PostgreSQL.
    Pooler {
        /// Found out at the first connection.
        Auto = "auto",
        /// Nothing.
        None = "none",
        /// A pooler that keeps one server connection per session.
        Session = "session",
        /// A pooler that may change the server connection between transactions.
        Transaction = "transaction",
    }

    /// How much SQLite waits for the disk.
    Synchronous {
        /// A commit is on the disk when it returns.
        Full = "full",
        /// A commit may be lost when the host loses power; the file stays sound.
        Normal = "normal",
    }

    /// How much is logged.
    LogLevel {
        /// Only what somebody must act on.
        Error = "error",
        /// Also what will need attention.
        Warn = "warn",
        /// Also what happens in the large.
        Info = "info",
        /// Also what happens in the small.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }

    /// What a log line looks like.
    LogFormat {
        /// For people.
        Pretty = "pretty",
        /// One JSON object per line.
        Json = "json",
        /// `[time] LEVEL | Worker#1 | Job#1 | text`.
        Columns = "columns",
    }

    /// Whether callers of the server have to prove who they are.
    Auth {
        /// Unless the server listens on loopback only.
        Auto = "auto",
        /// Always.
        Required = "required",
        /// Never; then the server listens on loopback only.
        None = "none",
    }

    /// The algorithm of an issuer's signatures.
    JwtAlgorithm {
        /// HMAC with a shared secret.
        Hs256 = "hs256",
        /// RSA.
        Rs256 = "rs256",
        /// Elliptic curve P-256.
        Es256 = "es256",
    }

    /// Whether calls in the form of AWS Lambda have to be signed.
    LambdaSignature {
        /// No, unless the server asks its callers who they are; then it is one way to tell.
        Off = "off",
        /// Yes.
        Verify = "verify",
    }

    /// What becomes of requests for a pool that does not exist.
    Unknown {
        /// They are refused.
        Refuse = "refuse",
        /// They are let through, and nothing is counted.
        Allow = "allow",
    }

    /// Whether what happens becomes events of the outbox.
    Events {
        /// It does not.
        Off = "off",
        /// It does, in the same transaction.
        On = "on",
    }

    /// How batches of records are made smaller.
    Compression {
        /// Not at all.
        None = "none",
        /// Quick, and small enough.
        Lz4 = "lz4",
        /// Smaller, for more work.
        Zstd = "zstd",
        /// For readers that know nothing else.
        Snappy = "snappy",
    }

    /// What the brokers of Kafka ask for.
    KafkaSecurity {
        /// Nothing.
        Plaintext = "plaintext",
        /// An encrypted connection.
        Ssl = "ssl",
        /// A name and a password, in the open.
        SaslPlaintext = "sasl_plaintext",
        /// Both.
        SaslSsl = "sasl_ssl",
    }

    /// Which words nexrender uses in its answers.
    RenderDialect {
        /// Each answer tells.
        Auto = "auto",
        /// Those of the open server.
        Oss = "oss",
        /// Those of the document and of the cloud.
        Cloud = "cloud",
    }

    /// How a name and a password are shown to Kafka.
    KafkaMechanism {
        /// As they are.
        Plain = "plain",
        /// By a proof.
        ScramSha256 = "scram-sha-256",
        /// By a proof with a longer hash.
        ScramSha512 = "scram-sha-512",
    }

    /// Whether browsers reach the server over TLS.
    Tls {
        /// They do not.
        None = "none",
        /// A proxy before the server speaks TLS with them.
        Proxy = "proxy",
    }

    /// What the answer of a command looks like.
    Output {
        /// For people.
        Table = "table",
        /// One JSON document.
        Json = "json",
        /// One JSON object per line.
        Jsonl = "jsonl",
        /// Comma-separated values with a header.
        Csv = "csv",
    }

    /// Whether output is coloured.
    ColorChoice {
        /// When it goes to a terminal that can.
        Auto = "auto",
        /// Yes.
        Always = "always",
        /// No.
        Never = "never",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_back_and_nothing_else_does() {
        macro_rules! check {
            ($($type:ident)+) => {$(
                assert_eq!($type::ALL.len(), $type::NAMES.len());
                for (choice, name) in $type::ALL.iter().zip($type::NAMES) {
                    assert_eq!(name.parse::<$type>(), Ok(*choice));
                    assert_eq!(choice.to_string(), *name);
                    assert!(name.to_uppercase().parse::<$type>().is_err());
                }
                assert!("".parse::<$type>().is_err());
            )+};
        }

        check!(Init Pooler Synchronous LogLevel LogFormat Auth JwtAlgorithm LambdaSignature Unknown Events Compression KafkaSecurity KafkaMechanism RenderDialect Tls Output ColorChoice);
        assert_eq!("x".parse::<LogFormat>().unwrap_err().to_string(), "not one of pretty, json, columns");
    }
}
