//! The servers that the tests need: installed when root may do so, started, and stopped with their value.

use crate::process::run_in_terminal;
use crate::supervise::Cancel;
use std::env;
use std::path::Path;
use std::process::Command;
use tidemill_testkit::account::{find_program, is_root};
use tidemill_testkit::skip;
use tidemill_testkit::{PostgresOptions, PrivatePostgres, pgbouncer, postgres, webdriver};

/// Where tests find a PostgreSQL: the address of a database in which they may make others.
const POSTGRES_URL: &str = "TIDEMILL_TEST_POSTGRES_URL";

/// What runs for the tests.
#[derive(Debug)]
pub(crate) struct Services {
    url: Option<String>,
    // Lives only to be dropped.
    _postgres: Option<PrivatePostgres>,
}

/// Something that the tests need on this machine.
struct Component {
    /// Its name in `TIDEMILL_TEST_SKIP`.
    name: &'static str,
    /// The Debian packages that have it, separated by spaces.
    packages: &'static str,
    is_there: fn() -> bool,
}

const COMPONENTS: [Component; 3] = [
    Component { name: "postgres", packages: "postgresql", is_there: || postgres::find_binaries().is_some() },
    Component { name: "pgbouncer", packages: "pgbouncer", is_there: || pgbouncer::find_binary().is_some() },
    Component {
        name: "chromium",
        packages: "chromium chromium-driver",
        is_there: || webdriver::find_programs().is_some(),
    },
];

impl Services {
    /// Installs what is missing and starts what is needed.
    pub(crate) fn start(cancel: &Cancel) -> Result<Self, String> {
        install(cancel)?;
        if skip::is_named("postgres") {
            println!("postgres: skipped");
            return Ok(Self { url: None, _postgres: None });
        }
        if let Some(url) = given_url() {
            println!("postgres: the one that {POSTGRES_URL} names");
            return Ok(Self { url: Some(url), _postgres: None });
        }
        let server = PrivatePostgres::start(&PostgresOptions::default())
            .map_err(|error| format!("no private PostgreSQL: {error:?}"))?;
        println!("postgres: private, on port {}", server.port());
        Ok(Self { url: Some(server.url("postgres")), _postgres: Some(server) })
    }

    /// Tells a command where they are.
    pub(crate) fn tell(&self, command: &mut Command) {
        match &self.url {
            Some(url) => command.env(POSTGRES_URL, url),
            // One that was given must not be used when PostgreSQL is skipped.
            None => command.env_remove(POSTGRES_URL),
        };
    }
}

/// The address of a PostgreSQL that was given to us.
fn given_url() -> Option<String> {
    env::var(POSTGRES_URL).ok().filter(|url| !url.is_empty())
}

fn install(cancel: &Cancel) -> Result<(), String> {
    let missing: Vec<&Component> = COMPONENTS
        .iter()
        .filter(|component| !skip::is_named(component.name) && !(component.is_there)())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let apt = find_program("apt-get").filter(|_| is_root() && Path::new("/etc/debian_version").exists());
    let Some(apt) = apt else {
        let advice = advice(&missing);
        // Most tests can do with the given one; those that crash a server of their own will say the same.
        if given_url().is_some() && missing.iter().all(|component| component.name == "postgres") {
            println!("{advice}");
            return Ok(());
        }
        return Err(advice);
    };
    let packages: Vec<&str> = missing.iter().flat_map(|component| component.packages.split(' ')).collect();
    println!("installing {}", packages.join(", "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new(&apt);
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run_in_terminal(command, cancel)
    };
    apt(&["update", "-qq"])?;
    apt(&[&["install", "-y", "-qq", "--no-install-recommends"], &packages[..]].concat())?;
    let still: Vec<&Component> = missing.into_iter().filter(|component| !(component.is_there)()).collect();
    if still.is_empty() { Ok(()) } else { Err(advice(&still)) }
}

fn advice(missing: &[&Component]) -> String {
    let list = |text: fn(&Component) -> &str, separator: &str| {
        missing.iter().map(|component| text(component)).collect::<Vec<_>>().join(separator)
    };
    format!(
        "missing on this machine: {}. Install the Debian packages {} (root on Debian gets them installed), \
         or set {}={} to skip their tests",
        list(|component| component.name, ", "),
        list(|component| component.packages, " "),
        skip::SKIP,
        list(|component| component.name, ","),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_misses_something_learns_the_packages_and_the_way_without() {
        let missing: Vec<&Component> = COMPONENTS.iter().collect();

        let advice = advice(&missing);

        assert!(advice.contains("packages postgresql pgbouncer chromium chromium-driver "), "{advice}");
        assert!(advice.contains("TIDEMILL_TEST_SKIP=postgres,pgbouncer,chromium "), "{advice}");
    }
}
