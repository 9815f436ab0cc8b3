//! The smaller tables that a file has once per name, such as `[connections.NAME]`.

use super::choice::JwtAlgorithm;
use super::key::tables;
use super::kind::Kind::{Command, Number, Period, Text, Url};
use super::reader::{Entry, Reader};
use super::secret::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidemill_domain::pool::on_demand::Thresholds;
use tidemill_engine::pool::{OnDemand, Probe};
use tidemill_kafka::Route;
use tidemill_server::lambda::CallerKey;
use tidemill_server::lambda::signature::AccessKey;
use tidemill_store::StoreError;
use tidemill_store::item::Database;

tables! {
    /// An issuer of JSON Web Tokens. A token cannot choose another algorithm.
    pub struct IssuerSettings in "jwt.issuers.NAME." {
        issuer: String, Text(500) => "Claim iss of the tokens.";
        audience: String, Text(500) => "Claim aud of the tokens.";
        algorithm: JwtAlgorithm = "rs256" => "Signature algorithm.";
        secret: Option<Secret> => "Shared secret, for hs256.";
        public_key: Option<PathBuf>, Text(500) => "PEM file with the public key, for rs256 and es256.";
        role_claim: String = "role", Text(500) => "Claim with the role of the caller.";
    }

    struct LambdaKeyTable in "lambda.keys.NAME." {
        id: String, Text(128) => "Access key id of the caller.";
        secret: Secret => "Secret access key of the caller.";
    }

    /// A database that job files read from.
    pub struct ConnectionSettings in "connections.NAME." {
        url: Secret, Url => "Database URL of the connection.";
        password: Option<Secret> => "Password of the connection, if it is not part of the URL.";
    }

    struct ProbeTable in "pools.probe.NAME." {
        command: Vec<String>, Command => "Program that counts the sessions of suspect leases.";
        every: Duration = "1m", Period("1s", "1d") => "How often it runs while a lease is suspect.";
        timeout: Duration = "30s", Period("100ms", "1h") => "Timeout for one run.";
    }

    struct OnDemandTable in "pools.on_demand.NAME." {
        command: Vec<String>, Command => "Program that adds or removes capacity when the demand changes.";
        scale_up_at: u32, Number(1, 1_000_000_000) => "Runs the program to add capacity, with this many units or more.";
        scale_down_at: u32, Number(0, 1_000_000_000) =>
            "Runs the program to remove capacity, with this many units or fewer.";
        hold: Duration = "10m", Period("1s", "7d") => "Shortest time between two runs.";
        every: Duration = "30s", Period("1s", "1d") => "How often the demand is checked.";
        timeout: Duration = "10m", Period("100ms", "1d") => "Timeout for one run.";
    }

    struct RouteTable in "outbox.kafka.routes.NAME." {
        event_type: String, Text(200) => "Event type; a * at its end matches all types with this prefix.";
        topic: String, Text(249) => "Topic of these events.";
    }

    struct RenderKeyTable in "render.keys.NAME." {
        secret: Secret => "Key: 32 random bytes in base64 or as 64 hexadecimal digits.";
    }
}

/// The key of an issuer's signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IssuerKey<'a> {
    /// A secret that both sides know, for HS256.
    Shared(&'a Secret),
    /// The file of a public key in PEM.
    Public(&'a Path),
}

impl IssuerSettings {
    /// The key that the algorithm needs. None when it is not set, or when the other one is set too.
    pub fn key(&self) -> Option<IssuerKey<'_>> {
        match (self.algorithm, &self.secret, &self.public_key) {
            (JwtAlgorithm::Hs256, Some(secret), None) => Some(IssuerKey::Shared(secret)),
            (JwtAlgorithm::Rs256 | JwtAlgorithm::Es256, None, Some(file)) => Some(IssuerKey::Public(file)),
            _ => None,
        }
    }
}

pub(super) fn issuers(reader: &mut Reader<'_>) -> BTreeMap<String, IssuerSettings> {
    let issuer = |entry: &Entry, issuer: IssuerSettings| match (issuer.key(), issuer.algorithm) {
        (Some(_), _) => Ok((entry.name.clone(), issuer)),
        (None, JwtAlgorithm::Hs256) => {
            let why = "hs256 needs a shared secret and no public key";
            Err(entry.wrong(why, "add secret = \"file:/path\""))
        }
        (None, JwtAlgorithm::Rs256 | JwtAlgorithm::Es256) => {
            let why = "this algorithm needs a public key and no secret";
            Err(entry.wrong(why, "add public_key = \"/path.pem\""))
        }
    };
    reader.named(issuer).into_iter().collect()
}

impl ConnectionSettings {
    /// The database, not connected yet.
    pub fn database(&self) -> Result<Database, StoreError> {
        Database::connect(self.whole_url()?.expose())
    }

    fn whole_url(&self) -> Result<Secret, StoreError> {
        let (url, Some(password)) = (self.url.expose(), &self.password) else { return Ok(self.url.clone()) };
        let bad = |why: &str| StoreError::BadUrl { why: why.to_owned() };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it has no ://"))?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (login, host) = rest[..end]
            .rsplit_once('@')
            .ok_or_else(|| bad("a password is set, but the URL has no user: write USER@ before the host"))?;
        if login.contains(':') {
            return Err(bad("the URL has a password, and another one is set"));
        }
        let password = utf8_percent_encode(password.expose(), NON_ALPHANUMERIC);
        Ok(Secret::new(format!("{scheme}://{login}:{password}@{host}{}", &rest[end..])))
    }
}

pub(super) fn connections(reader: &mut Reader<'_>) -> BTreeMap<String, ConnectionSettings> {
    let connection = |entry: &Entry, connection: ConnectionSettings| {
        // The store knows which databases exist. Its errors never repeat the URL.
        connection.database().map_err(|error| {
            let fix = "write postgres://user@host/database, mysql://user@host/database or sqlite://file";
            entry.wrong_key("url", None, error.to_string(), fix.to_owned())
        })?;
        Ok((entry.name.clone(), connection))
    };
    reader.named(connection).into_iter().collect()
}

pub(super) fn lambda_keys(reader: &mut Reader<'_>) -> Vec<CallerKey> {
    let mut known: Vec<CallerKey> = Vec::new();
    reader.named(|entry, table: LambdaKeyTable| {
        let key = AccessKey::new(&table.id, table.secret.expose())
            .map_err(|error| entry.wrong(error.to_string(), "make an id and a secret as AWS does"))?;
        // With two keys of one id, it is unclear which caller has signed.
        if let Some(other) = known.iter().find(|other| other.key.id() == key.id()) {
            let why = format!("it has the same id as {}", other.name);
            return Err(entry.wrong(why, "give each key its own id"));
        }
        let key = CallerKey { name: entry.name.clone(), key };
        known.push(key.clone());
        Ok(key)
    })
}

pub(super) fn probes(reader: &mut Reader<'_>) -> Vec<Probe> {
    reader.named(|entry, ProbeTable { command, every, timeout }| {
        let bad_name = |_| entry.wrong("it is not the name of a pool", "correct the name of the pool");
        Ok(Probe { pool: entry.name.parse().map_err(bad_name)?, command, every, timeout })
    })
}

pub(super) fn on_demand(reader: &mut Reader<'_>) -> Vec<OnDemand> {
    reader.named(|entry, OnDemandTable { command, scale_up_at, scale_down_at, hold, every, timeout }| {
        let bad_name = |_| entry.wrong("it is not the name of a pool", "correct the name of the pool");
        if scale_down_at >= scale_up_at {
            let why = format!("it is not less than scale_up_at, which is {scale_up_at}");
            let fix = "make it less, so that the program does not run at each small change";
            let value = scale_down_at.to_string();
            return Err(entry.wrong_key("scale_down_at", Some(&value), why, fix.to_owned()));
        }
        let (scale_up_at, scale_down_at) = (scale_up_at.into(), scale_down_at.into());
        let thresholds = Thresholds { scale_up_at, scale_down_at, hold };
        Ok(OnDemand { pool: entry.name.parse().map_err(bad_name)?, command, thresholds, every, timeout })
    })
}

pub(super) fn routes(reader: &mut Reader<'_>) -> Vec<Route> {
    reader.named(|_, RouteTable { event_type, topic }| Ok(Route { event_type, topic }))
}

/// A key that encrypts render data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderKey {
    /// Its name, which is stored with the data that it encrypts.
    pub name: String,
    /// Its text, which was checked to be 32 bytes.
    secret: Secret,
}

impl RenderKey {
    /// The key itself. The caller is responsible for where it goes.
    pub fn expose(&self) -> [u8; 32] {
        key_bytes(self.secret.expose()).expect("it was checked when it was read")
    }
}

/// 32 bytes, from base64 or hexadecimal digits.
fn key_bytes(text: &str) -> Option<[u8; 32]> {
    let digits = |index: usize| u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok();
    let key = match text.len() {
        64 => (0..32).map(digits).collect::<Option<Vec<u8>>>()?,
        _ => STANDARD.decode(text).ok()?,
    };
    key.try_into().ok()
}

pub(super) fn render_keys(reader: &mut Reader<'_>) -> Vec<RenderKey> {
    reader.named(|entry, RenderKeyTable { secret }| {
        if key_bytes(secret.expose()).is_none() {
            let why = "a key must be 32 bytes, in base64 or as 64 hexadecimal digits";
            let fix =
                "make one with `openssl rand -base64 32`, and refer to it as \"env:NAME\" or \"file:/path\"";
            return Err(entry.wrong_key("secret", None, why.to_owned(), fix.to_owned()));
        }
        Ok(RenderKey { name: entry.name.clone(), secret })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(url: &str, password: Option<&str>) -> Result<String, String> {
        let connection = ConnectionSettings { url: Secret::new(url), password: password.map(Secret::new) };
        connection.whole_url().map(|url| url.expose().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_password_is_put_into_the_url_whatever_its_characters() {
        let check = |url: &str, password: Option<&str>, expected: &str| {
            assert_eq!(whole(url, password), Ok(expected.to_owned()));
        };

        check("postgres://u@h/d", None, "postgres://u@h/d");
        check("postgres://u@h/d", Some("p@:/?#%"), "postgres://u:p%40%3A%2F%3F%23%25@h/d");
        check(
            "mysql://u@h:3306/d?ssl-mode=disabled",
            Some("한"),
            "mysql://u:%ED%95%9C@h:3306/d?ssl-mode=disabled",
        );
        check("postgres://u@h", Some("p"), "postgres://u:p@h");
        check("postgres://u@h/d?x=a@b", Some("p"), "postgres://u:p@h/d?x=a@b");
    }

    #[test]
    fn a_password_that_has_no_place_is_refused_and_not_repeated() {
        for url in ["postgres://h/d", "sqlite://file.db", "postgres://u:other@h/d", "nonsense"] {
            let refusal = whole(url, Some("geheim")).unwrap_err();
            assert!(!refusal.contains("geheim") && !refusal.contains("other@"), "{refusal}");
        }
    }
}
