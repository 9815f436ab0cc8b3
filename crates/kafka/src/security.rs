//! TLS, and SASL with user name and password.

use crate::options::KafkaError;
use rdkafka::ClientConfig;
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Security {
    pub tls: Option<Tls>,
    pub sasl: Option<Sasl>,
}

/// The names of brokers are always checked against their certificates.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// PEM file of trusted authorities; `None` trusts those of the system.
    pub ca: Option<PathBuf>,
    /// PEM file of the client certificate.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub key_password: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Sasl {
    pub mechanism: Mechanism,
    pub user: String,
    pub password: String,
}

tidemill_domain::words! {
    pub enum Mechanism any_case: "the mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512" {
        /// Sends the password itself; only sensible over TLS.
        Plain = "PLAIN",
        ScramSha256 = "SCRAM-SHA-256",
        ScramSha512 = "SCRAM-SHA-512",
    }
}

impl Security {
    /// Whether the settings are complete, and this build supports them.
    pub fn check(&self) -> Result<(), KafkaError> {
        self.check_build(cfg!(feature = "tls"))?;
        match &self.tls {
            Some(tls) if tls.certificate.is_some() != tls.key.is_some() => {
                Err(KafkaError::Incomplete("only one of the client certificate and its key is configured"))
            }
            _ => Ok(()),
        }
    }

    /// TLS and the hashes of SCRAM come from OpenSSL.
    fn check_build(&self, has_tls: bool) -> Result<(), KafkaError> {
        let is_scram = self.sasl.as_ref().is_some_and(|sasl| sasl.mechanism != Mechanism::Plain);
        if has_tls || (self.tls.is_none() && !is_scram) { Ok(()) } else { Err(KafkaError::BuiltWithoutTls) }
    }

    /// The client's `security.protocol`.
    pub const fn protocol(&self) -> &'static str {
        match (&self.tls, &self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        }
    }

    pub(crate) fn apply(&self, config: &mut ClientConfig) {
        config.set("security.protocol", self.protocol());
        if let Some(Tls { ca, certificate, key, key_password }) = &self.tls {
            config.set("ssl.endpoint.identification.algorithm", "https");
            // Our OpenSSL is linked statically and does not know where the system's certificates are.
            let ca = ca.as_ref().map_or_else(|| "probe".to_owned(), |ca| ca.display().to_string());
            config.set("ssl.ca.location", ca);
            for (name, file) in [("ssl.certificate.location", certificate), ("ssl.key.location", key)] {
                if let Some(file) = file {
                    config.set(name, file.display().to_string());
                }
            }
            if let Some(password) = key_password {
                config.set("ssl.key.password", password);
            }
        }
        if let Some(Sasl { mechanism, user, password }) = &self.sasl {
            config.set("sasl.mechanism", mechanism.as_str());
            config.set("sasl.username", user).set("sasl.password", password);
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ca, certificate, key, key_password: _ } = self;
        f.debug_struct("Tls")
            .field("ca", ca)
            .field("certificate", certificate)
            .field("key", key)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, user, password: _ } = self;
        f.debug_struct("Sasl").field("mechanism", mechanism).field("user", user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sasl() -> Sasl {
        Sasl { mechanism: Mechanism::ScramSha512, user: "shop".into(), password: "open sesame".into() }
    }

    #[test]
    fn the_protocol_follows_from_what_is_asked_for() {
        let protocol = |tls, sasl| Security { tls, sasl }.protocol();

        assert_eq!(protocol(None, None), "plaintext");
        assert_eq!(protocol(Some(Tls::default()), None), "ssl");
        assert_eq!(protocol(None, Some(sasl())), "sasl_plaintext");
        assert_eq!(protocol(Some(Tls::default()), Some(sasl())), "sasl_ssl");
    }

    #[test]
    fn secrets_are_not_shown() {
        let tls = Tls { key_password: Some("open sesame".into()), ..Tls::default() };
        let security = Security { tls: Some(tls), sasl: Some(sasl()) };

        assert!(!format!("{security:?}").contains("sesame"));
    }

    #[test]
    fn a_build_without_tls_says_so_instead_of_connecting_without_it() {
        let tls = Security { tls: Some(Tls::default()), sasl: None };
        let scram = Security { tls: None, sasl: Some(sasl()) };
        let plain = Security { tls: None, sasl: Some(Sasl { mechanism: Mechanism::Plain, ..sasl() }) };

        assert_eq!(tls.check_build(false), Err(KafkaError::BuiltWithoutTls));
        assert_eq!(scram.check_build(false), Err(KafkaError::BuiltWithoutTls));
        assert_eq!(
            [plain.check_build(false), tls.check_build(true), scram.check_build(true)],
            [const { Ok(()) }; 3]
        );
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let tls = Tls { certificate: Some("c.pem".into()), ..Tls::default() };

        assert!(Security { tls: Some(tls.clone()), sasl: None }.check().is_err());
        assert!(Security { tls: Some(Tls { key: Some("k.pem".into()), ..tls }), sasl: None }.check().is_ok());
    }
}
