//! The sections `[connections.NAME]`: databases that job files read from by name.

use super::error::ConfigError;
use super::secret::Secret;
use super::table::{Entry, refuse};
use tidemill_store::StoreError;
use tidemill_store::item::Database;

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

pub(super) fn connection(entry: &Entry) -> Result<ConnectionSettings, ConfigError> {
    let Some(url) = entry.get("url") else {
        let why = "a connection has a URL, and this one has none";
        return Err(entry.refuse(why, "add url = \"postgres://user@host/database\""));
    };
    let connection = ConnectionSettings { name: entry.name.clone(), url, password: entry.get("password") };
    // The store knows which databases there are; its words never repeat the URL.
    match connection.database() {
        Ok(_) => Ok(connection),
        Err(error) => {
            let fix =
                "write postgres://user@host/database, mysql://user@host/database or sqlite://file".to_owned();
            let path = format!("{}.url", entry.path);
            Err(refuse(path, entry.first_origin(), None, error.to_string(), fix))
        }
    }
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
