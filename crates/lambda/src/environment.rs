//! The configuration of the function, by variables with the same names as those of a server.

use std::env;
use std::fmt::Display;
use std::str::FromStr;
use tidemill_domain::code::Code;
use tidemill_server::api::pool::emr_agent::EmrAgentOptions;
use tidemill_server::lambda::function::{FunctionError, FunctionOptions};
use tidemill_store::url::Dialect;
use tidemill_store::{DatabaseUrl, Init, Pooler, StoreOptions};
use tracing_subscriber::filter::LevelFilter;

const PREFIX: &str = "TIDEMILL_";
const URL: &str = "TIDEMILL_DATABASE_URL";
const PASSWORD: &str = "TIDEMILL_DATABASE_PASSWORD";
const INIT: &str = "TIDEMILL_DATABASE_INIT";
const POOLER: &str = "TIDEMILL_DATABASE_POOLER";
const UNKNOWN: &str = "TIDEMILL_POOLS_UNKNOWN";
const COMPAT: &str = "TIDEMILL_POOLS_COMPAT_AVAILABLE";
const LOG_LEVEL: &str = "TIDEMILL_LOG_LEVEL";
const ALL: [&str; 7] = [URL, PASSWORD, INIT, POOLER, UNKNOWN, COMPAT, LOG_LEVEL];

/// Tests of this workspace run in an environment with these.
const OF_TESTS: &str = "TIDEMILL_TEST_";

#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) url: DatabaseUrl,
    pub(crate) store: StoreOptions,
    pub(crate) init: Init,
    pub(crate) function: FunctionOptions,
}

/// What is logged; a wrong word is an error of every call.
pub(crate) fn log_level() -> LevelFilter {
    env::var(LOG_LEVEL).ok().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::WARN)
}

impl Environment {
    /// The environment of this process.
    pub(crate) fn of_process() -> Result<Self, FunctionError> {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self::read(&env::vars_os().map(|(name, text)| (lossy(name), lossy(text))).collect::<Vec<_>>())
    }

    fn read(all: &[(String, String)]) -> Result<Self, FunctionError> {
        let is_ours = |name: &str| name.starts_with(PREFIX) && !name.starts_with(OF_TESTS);
        if let Some((name, _)) = all.iter().find(|(name, _)| is_ours(name) && !ALL.contains(&name.as_str())) {
            let fix = format!("remove {name}; there are {}", ALL.join(", "));
            return Err(FunctionError::new(Code::UnknownKey, format!("unknown variable {name}"), fix));
        }
        // An empty variable counts as unset.
        let text = |name: &str| {
            let found = all.iter().find(|(other, text)| other == name && !text.is_empty());
            found.map(|(_, text)| text.as_str())
        };
        let _checked: Option<LevelFilter> = word(LOG_LEVEL, text(LOG_LEVEL))?;
        let is_compat: Option<bool> = word(COMPAT, text(COMPAT))?;
        let emr_agent = EmrAgentOptions {
            compat_available: is_compat.unwrap_or_default(),
            unknown: word(UNKNOWN, text(UNKNOWN))?.unwrap_or_default(),
        };
        Ok(Self {
            url: url(text(URL))?,
            store: StoreOptions {
                // Lambda starts a sandbox for each call at once, so this is what the database has to bear.
                max_connections: 1,
                pooler: pooler(text(POOLER))?,
                password: text(PASSWORD).map(str::to_owned),
                ..StoreOptions::default()
            },
            init: word(INIT, text(INIT))?.unwrap_or(Init::Never),
            function: FunctionOptions {
                emr_agent,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..FunctionOptions::default()
            },
        })
    }
}

fn url(text: Option<&str>) -> Result<DatabaseUrl, FunctionError> {
    let fix = format!("set {URL} of the function to postgres://USER@HOST:5432/DATABASE");
    let bad = |why: &dyn Display| FunctionError::new(Code::BadDatabaseUrl, why, &fix);
    let text = text.ok_or_else(|| bad(&"the function has no database"))?;
    let url = DatabaseUrl::from_str(text).map_err(|error| bad(&error))?;
    match url.dialect() {
        Dialect::Postgres => Ok(url),
        Dialect::Sqlite => {
            Err(bad(&"a file of a function is gone with its sandbox, so it cannot use SQLite"))
        }
    }
}

/// As the configuration of a server.
fn pooler(text: Option<&str>) -> Result<Pooler, FunctionError> {
    match text {
        None | Some("auto" | "none" | "session") => Ok(Pooler::Session),
        Some("transaction") => Ok(Pooler::Transaction),
        Some(_) => Err(bad_value(POOLER, "not one of auto, none, session, transaction")),
    }
}

fn word<T: FromStr<Err: Display>>(name: &str, text: Option<&str>) -> Result<Option<T>, FunctionError> {
    text.map(|text| text.parse::<T>().map_err(|error| bad_value(name, error))).transpose()
}

fn bad_value(name: &str, why: impl Display) -> FunctionError {
    FunctionError::new(Code::BadValue, format!("{name}: {why}"), "correct the variable of the function")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_server::api::pool::emr_agent::UnknownPool;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, FunctionError> {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        Environment::read(&variables.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_url_is_enough_and_nothing_is_migrated() {
        let found = read(&[(URL, "postgres://tidemill@db/app"), ("PATH", "/bin"), (PASSWORD, "")]).unwrap();

        assert_eq!(found.url.to_string(), "postgres://db:5432/app");
        assert_eq!((found.init, found.store.max_connections), (Init::Never, 1));
        assert_eq!((found.store.pooler, found.store.password), (Pooler::Session, None));
        assert_eq!(found.function.emr_agent.unknown, UnknownPool::Refuse);
    }

    #[test]
    fn the_rest_is_as_for_a_server() {
        let found = read(&[
            (URL, "jdbc:postgresql://db:6543/app"),
            (PASSWORD, "geheim"),
            (INIT, "always"),
            (POOLER, "transaction"),
            (UNKNOWN, "allow"),
            (COMPAT, "true"),
            (LOG_LEVEL, "debug"),
        ])
        .unwrap();

        assert_eq!((found.init, found.store.pooler), (Init::Always, Pooler::Transaction));
        assert_eq!(found.store.password.as_deref(), Some("geheim"));
        assert!(found.function.emr_agent.compat_available);
        assert_eq!(found.function.emr_agent.unknown, UnknownPool::Allow);
    }

    #[test]
    fn a_mistake_is_named_with_its_fix() {
        let database = (URL, "postgres://db/app");
        for (variables, kind, message) in [
            (vec![], "TM0201", "TIDEMILL_DATABASE_URL of the function"),
            (vec![(URL, "sqlite://tidemill.db")], "TM0201", "cannot use SQLite"),
            (vec![(URL, "db/app")], "TM0201", "no scheme"),
            (
                vec![database, ("TIDEMILL_DATABASE_POOL", "x")],
                "TM0101",
                "unknown variable TIDEMILL_DATABASE_POOL;",
            ),
            (vec![database, (INIT, "sometimes")], "TM0102", "TIDEMILL_DATABASE_INIT: not one of always"),
            (vec![database, (POOLER, "pgbouncer")], "TM0102", "TIDEMILL_DATABASE_POOLER: not one of"),
            (vec![database, (UNKNOWN, "maybe")], "TM0102", "TIDEMILL_POOLS_UNKNOWN: not one of"),
            (vec![database, (COMPAT, "yes")], "TM0102", "TIDEMILL_POOLS_COMPAT_AVAILABLE: "),
            (vec![database, (LOG_LEVEL, "loud")], "TM0102", "TIDEMILL_LOG_LEVEL: "),
        ] {
            let error = read(&variables).unwrap_err();
            assert!(error.kind == kind && error.message.contains(message), "{variables:?}: {error:?}");
        }
    }
}
