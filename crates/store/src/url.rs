//! Database URLs. Parsed once; shown without secrets.

use crate::error::{Result, StoreError};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

#[derive(Clone)]
pub struct DatabaseUrl {
    pub(crate) place: Place,
}

#[derive(Clone)]
pub(crate) enum Place {
    SqliteMemory,
    SqliteFile(PathBuf),
    Postgres(Box<PgConnectOptions>),
}

tidemill_domain::words! {
    pub enum Dialect {
        Postgres = "postgres",
        Sqlite = "sqlite",
    }
}

impl DatabaseUrl {
    pub fn dialect(&self) -> Dialect {
        match self.place {
            Place::Postgres(_) => Dialect::Postgres,
            Place::SqliteMemory | Place::SqliteFile(_) => Dialect::Sqlite,
        }
    }

    /// How long a silent process counts as alive, unless it is set. On SQLite all processes are on one machine, which
    /// notices a dead one by its pid; and a long transaction of a step delays the heartbeat of its own process.
    pub fn default_lease(&self) -> Duration {
        match self.place {
            Place::Postgres(_) => Duration::from_secs(7),
            Place::SqliteMemory | Place::SqliteFile(_) => Duration::from_secs(15),
        }
    }

    /// The file of an SQLite database.
    pub fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::SqliteFile(path) => Some(path),
            Place::SqliteMemory | Place::Postgres(_) => None,
        }
    }

    /// The name of the database or its file as part of a path: only letters, digits, `-` and `_`.
    pub fn path_name(&self) -> String {
        let name = match &self.place {
            Place::SqliteMemory => "memory".to_owned(),
            Place::SqliteFile(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Place::Postgres(options) => {
                options.get_database().unwrap_or_else(|| options.get_username()).to_owned()
            }
        };
        name.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect()
    }
}

/// Without user name, password and parameters.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::SqliteMemory => f.write_str("sqlite::memory:"),
            Place::SqliteFile(path) => write!(f, "sqlite://{}", path.display()),
            Place::Postgres(options) => {
                let database = options.get_database().unwrap_or_else(|| options.get_username());
                write!(f, "postgres://{}:{}/{database}", options.get_host(), options.get_port())
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

impl FromStr for DatabaseUrl {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        let place = if let Some(jdbc) = text.strip_prefix("jdbc:") {
            let Some(rest) = jdbc.strip_prefix("postgresql:") else {
                return Err(bad("of the jdbc: URLs only jdbc:postgresql: is supported"));
            };
            Place::Postgres(Box::new(jdbc_options(rest)?))
        } else if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            Place::Postgres(Box::new(postgres_options(text)?))
        } else if let Some(rest) = text.strip_prefix("sqlite:") {
            sqlite_place(rest)?
        } else {
            return Err(bad(&unknown_scheme(text)));
        };
        Ok(Self { place })
    }
}

fn bad(why: &str) -> StoreError {
    StoreError::BadUrl { why: why.to_owned() }
}

fn unknown_scheme(text: &str) -> String {
    match text.split_once(':') {
        Some((scheme, _)) if !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
            format!("its scheme {scheme:?} is none of sqlite, postgres, postgresql, jdbc:postgresql")
        }
        _ => "it has no scheme such as sqlite: or postgres:".to_owned(),
    }
}

fn sqlite_place(rest: &str) -> Result<Place> {
    if rest == ":memory:" || rest == "//:memory:" {
        return Ok(Place::SqliteMemory);
    }
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path.ends_with('/') {
        return Err(bad("it names no file"));
    }
    if path.contains('?') {
        return Err(bad("parameters after ? are not supported for sqlite; use the database.* keys"));
    }
    if path.contains('\0') {
        return Err(bad("a file name cannot contain NUL"));
    }
    Ok(Place::SqliteFile(PathBuf::from(path)))
}

fn postgres_options(text: &str) -> Result<PgConnectOptions> {
    refuse_many_hosts(text)?;
    // The driver's message may quote the URL with its password, so drop it.
    let options = PgConnectOptions::from_str(text)
        .map_err(|_| bad("it is not of the form postgres://USER@HOST:PORT/DATABASE"))?;
    Ok(if options.get_application_name().is_some() { options } else { options.application_name("tidemill") })
}

fn refuse_many_hosts(text: &str) -> Result<()> {
    let authority = text.split_once("//").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?']).next().unwrap_or("");
    let hosts = authority.rsplit('@').next().unwrap_or("");
    if hosts.contains(',') {
        return Err(bad("several hosts are not supported; name the primary"));
    }
    Ok(())
}

/// `//host:port/database?user=…&password=…`, as the Java driver reads it.
fn jdbc_options(rest: &str) -> Result<PgConnectOptions> {
    let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
    let location = match location.strip_prefix("//") {
        Some(location) => location.to_owned(),
        None => format!("localhost/{location}"),
    };
    if location.contains('@') {
        return Err(bad("a jdbc: URL has its user in ?user=, not before an @"));
    }
    let mut options = postgres_options(&format!("postgres://{location}"))?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decoded(value)
            .ok_or_else(|| bad(&format!("the value of {name:?} is not valid percent-encoded UTF-8")))?;
        options = match name {
            "user" => options.username(&value),
            "password" => options.password(&value),
            "sslmode" => options.ssl_mode(value.parse().map_err(|_| {
                bad("sslmode is none of disable, allow, prefer, require, verify-ca, verify-full")
            })?),
            // The Java driver verifies the server fully when TLS is requested in this short form.
            "ssl" if value == "true" || value.is_empty() => options.ssl_mode(PgSslMode::VerifyFull),
            "sslrootcert" => options.ssl_root_cert(value),
            "ApplicationName" => options.application_name(&value),
            "currentSchema" => options.options([("search_path", value)]),
            // Tuning parameters of the Java driver mean nothing here, so such URLs can be pasted as they are.
            _ => {
                tracing::debug!(parameter = %name, "parameter {name} of the jdbc URL has no meaning here");
                options
            }
        };
    }
    Ok(options)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> DatabaseUrl {
        text.parse().unwrap()
    }

    fn postgres(text: &str) -> PgConnectOptions {
        match parsed(text).place {
            Place::Postgres(options) => *options,
            _ => panic!("not postgres: {text}"),
        }
    }

    #[test]
    fn the_documented_forms_are_understood() {
        assert_eq!(parsed("sqlite::memory:").to_string(), "sqlite::memory:");
        assert_eq!(parsed("sqlite://tidemill.db").to_string(), "sqlite://tidemill.db");
        assert_eq!(parsed("sqlite:///var/lib/t.db").to_string(), "sqlite:///var/lib/t.db");
        assert_eq!(parsed("postgresql://u@h:6543/d").to_string(), "postgres://h:6543/d");
        assert_eq!(parsed("postgres://u@h/d").dialect(), Dialect::Postgres);
    }

    #[test]
    fn a_jdbc_url_is_understood_with_its_parameters() {
        let options = postgres(
            "jdbc:postgresql://db.example:6432/batch?user=etl&password=p%40ss&ssl=true&reWriteBatchedInserts=true",
        );

        assert_eq!(options.get_host(), "db.example");
        assert_eq!(options.get_port(), 6432);
        assert_eq!(options.get_database(), Some("batch"));
        assert_eq!(options.get_username(), "etl");
        assert!(matches!(options.get_ssl_mode(), PgSslMode::VerifyFull));
        assert_eq!(postgres("jdbc:postgresql:batch").get_host(), "localhost");
    }

    #[test]
    fn a_password_is_never_shown() {
        for text in [
            "postgres://u:geheim@h/d",
            "jdbc:postgresql://h/d?user=u&password=geheim",
            "postgres://h/d?password=geheim",
        ] {
            let url = parsed(text);
            assert!(!format!("{url} {url:?}").contains("geheim"));
        }
        for text in [
            "postgres://u:geheim@h:notaport/d",
            "postgres://u:geheim@a,b/d",
            "mysql://u:geheim@h/d",
            "jdbc:postgresql://u:geheim@h/d",
        ] {
            let error = text.parse::<DatabaseUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("geheim"), "{error:?}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no scheme"),
            ("tidemill.db", "no scheme"),
            ("mysql://h/d", "\"mysql\""),
            ("jdbc:oracle:thin:@h", "jdbc:postgresql:"),
            ("sqlite://", "no file"),
            ("sqlite://a.db?mode=ro", "parameters"),
            ("postgres://h1,h2/d", "several hosts"),
            ("jdbc:postgresql://h/d?sslmode=maybe", "sslmode"),
            ("jdbc:postgresql://h/d?user=%zz", "percent-encoded"),
        ] {
            let error = text.parse::<DatabaseUrl>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_understood_or_refused(scheme in "(sqlite:|postgres://|jdbc:postgresql:)?", text in ".{0,60}") {
            let _answer = format!("{scheme}{text}").parse::<DatabaseUrl>();
        }
    }
}
