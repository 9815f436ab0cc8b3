//! The smaller named tables: issuers of JSON Web Tokens, databases that job files read from, keys of AWS Lambda callers,
//! probes, routes of Kafka, and keys of renders.

use super::choice::JwtAlgorithm;
use super::error::ConfigError;
use super::secret::Secret;
use super::section::{CONNECTIONS, ISSUERS, KEYS, PROBES, RENDER_KEYS, ROUTES};
use super::table::{Entry, Tables};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::PathBuf;
use tidemill_engine::pool::Probe;
use tidemill_kafka::Route;
use tidemill_server::lambda::CallerKey;
use tidemill_server::lambda::signature::AccessKey;
use tidemill_store::StoreError;
use tidemill_store::item::Database;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IssuerSettings {
    /// The name of its table.
    pub name: String,
    /// The claim `iss` of its tokens.
    pub issuer: String,
    /// The claim `aud` of its tokens.
    pub audience: String,
    /// The algorithm of its signatures; a token cannot choose another.
    pub algorithm: JwtAlgorithm,
    /// The key of its signatures.
    pub key: IssuerKey,
    /// The claim that holds the role of the caller.
    pub role_claim: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IssuerKey {
    /// A secret that both sides know, for HS256.
    Shared(Secret),
    /// The file of a public key in PEM.
    Public(PathBuf),
}

pub(super) fn issuers(tables: &mut Tables<'_>) -> Vec<IssuerSettings> {
    tables.read(&ISSUERS, |entry| {
        let required = |leaf: &str| {
            let why = format!("an issuer has the key {leaf}, and this one has none");
            entry.require(leaf, &why, &format!("add {leaf} = \"…\""))
        };
        let algorithm = entry.get("algorithm");
        let key = match (algorithm, entry.get("secret"), entry.get("public_key")) {
            (JwtAlgorithm::Hs256, Some(secret), None) => IssuerKey::Shared(secret),
            (JwtAlgorithm::Rs256 | JwtAlgorithm::Es256, None, Some(file)) => IssuerKey::Public(file),
            (JwtAlgorithm::Hs256, ..) => {
                let why = "hs256 needs a shared secret and no public key";
                return Err(entry.refuse(why, "add secret = \"file:/path\""));
            }
            (JwtAlgorithm::Rs256 | JwtAlgorithm::Es256, ..) => {
                let why = "this algorithm needs a public key and no secret";
                return Err(entry.refuse(why, "add public_key = \"/path.pem\""));
            }
        };
        Ok(IssuerSettings {
            name: entry.name.clone(),
            issuer: required("issuer")?,
            audience: required("audience")?,
            algorithm,
            key,
            role_claim: required("role_claim")?,
        })
    })
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionSettings {
    /// The name by which job files refer to it.
    pub name: String,
    /// Where it is. Hidden as a whole, because it may hold a password.
    pub url: Secret,
    /// The password, when it is not part of the URL.
    pub password: Option<Secret>,
}

impl ConnectionSettings {
    /// The database. Nothing is connected yet.
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
            .ok_or_else(|| bad("it names no user, and a password was given: write USER@ before the host"))?;
        if login.contains(':') {
            return Err(bad("it holds a password, and another one was given"));
        }
        let password = encoded(password.expose());
        Ok(Secret::new(format!("{scheme}://{login}:{password}@{host}{}", &rest[end..])))
    }
}

pub(super) fn connections(tables: &mut Tables<'_>) -> Vec<ConnectionSettings> {
    tables.read(&CONNECTIONS, connection)
}

fn connection(entry: &Entry) -> Result<ConnectionSettings, ConfigError> {
    let why = "a connection has a URL, and this one has none";
    let url = entry.require("url", why, "add url = \"postgres://user@host/database\"")?;
    let connection = ConnectionSettings { name: entry.name.clone(), url, password: entry.get("password") };
    // The store knows which databases there are; its words never repeat the URL.
    connection.database().map_err(|error| {
        let fix = "write postgres://user@host/database, mysql://user@host/database or sqlite://file";
        entry.refuse_hidden("url", error.to_string(), fix)
    })?;
    Ok(connection)
}

/// A text as it stands in a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

pub(super) fn lambda_keys(tables: &mut Tables<'_>) -> Vec<CallerKey> {
    let mut known: Vec<CallerKey> = Vec::new();
    tables.read(&KEYS, |entry| {
        let (Some(id), Some(secret)) =
            (entry.get::<Option<String>>("id"), entry.get::<Option<Secret>>("secret"))
        else {
            let why = "an access key has an id and a secret, and this one does not";
            return Err(entry.refuse(why, "add id = \"…\" and secret = \"file:/path\""));
        };
        let key = AccessKey::new(&id, secret.expose())
            .map_err(|error| entry.refuse(error.to_string(), "make an id and a secret as AWS does"))?;
        // Of two, nobody could say who has signed.
        if let Some(other) = known.iter().find(|other| other.key.id() == key.id()) {
            let why = format!("it has the id of {}", other.name);
            return Err(entry.refuse(why, "give each key an id of its own"));
        }
        let key = CallerKey { name: entry.name.clone(), key };
        known.push(key.clone());
        Ok(key)
    })
}

pub(super) fn probes(tables: &mut Tables<'_>) -> Vec<Probe> {
    tables.read(&PROBES, |entry| {
        let why = "a probe has a command, and this one has none";
        let command = entry.require("command", why, "add command = [\"/path/of/the/program\"]")?;
        let bad_name = |_| entry.refuse(PROBES.naming.rule(), "correct the name of the pool");
        let pool = entry.name.parse().map_err(bad_name)?;
        Ok(Probe { pool, command, every: entry.get("every"), timeout: entry.get("timeout") })
    })
}

pub(super) fn routes(tables: &mut Tables<'_>) -> Vec<Route> {
    tables.read(&ROUTES, |entry| match (entry.get("event_type"), entry.get("topic")) {
        (Some(event_type), Some(topic)) => Ok(Route { event_type, topic }),
        _ => {
            let fix = "add event_type = \"order.*\" and topic = \"orders\"";
            Err(entry.refuse("a route has an event_type and a topic", fix))
        }
    })
}

/// A key with which the data of renders is encrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderKey {
    /// Its name, which stands beside what is encrypted with it.
    pub name: String,
    /// Its text, which was found to be 32 bytes.
    secret: Secret,
}

impl RenderKey {
    /// The key itself. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> [u8; 32] {
        bytes(self.secret.expose()).expect("it was checked when it was read")
    }
}

/// 32 bytes, in base64 or as hexadecimal digits.
fn bytes(text: &str) -> Option<[u8; 32]> {
    if text.len() == 64 {
        let mut key = [0; 32];
        for (index, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        return Some(key);
    }
    STANDARD.decode(text).ok()?.try_into().ok()
}

pub(super) fn render_keys(tables: &mut Tables<'_>) -> Vec<RenderKey> {
    tables.read(&RENDER_KEYS, |entry| {
        let secret = entry.get::<Option<Secret>>("secret").filter(|secret| bytes(secret.expose()).is_some());
        let Some(secret) = secret else {
            let why = "a key is 32 bytes, in base64 or as 64 hexadecimal digits, and this is something else";
            let fix =
                "make one with `openssl rand -base64 32`, and name its place: \"env:NAME\" or \"file:/path\"";
            return Err(entry.refuse_hidden("secret", why, fix));
        };
        Ok(RenderKey { name: entry.name.clone(), secret })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(url: &str, password: Option<&str>) -> Result<String, String> {
        let name = "shop".to_owned();
        let connection =
            ConnectionSettings { name, url: Secret::new(url), password: password.map(Secret::new) };
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
