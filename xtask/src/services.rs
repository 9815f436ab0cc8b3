//! The servers that the tests need: installed when root may do so, started, and stopped with their value.

use crate::go;
use crate::jars::{self, KAFKA, SPRING};
use crate::kafka;
use crate::lambda;
use crate::nexrender;
use crate::process::run_in_terminal;
use crate::python::{AIRFLOW, AIRFLOW3, FORMATS, MOTO, OPENAPI, SMTP};
use crate::spark;
use crate::stages::now;
use crate::supervise::Cancel;
use crate::tool::{CYCLONEDX, DENY};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::account::{find_program, is_root};
use tidemill_testkit::java::SPRING_HOME;
use tidemill_testkit::kafka::{BOOTSTRAP, HOME};
use tidemill_testkit::nexrender as farm;
use tidemill_testkit::skip;
use tidemill_testkit::{KafkaOptions, PostgresOptions, PrivateKafka, PrivateMariadb, PrivatePostgres};
use tidemill_testkit::{mariadb, pgbouncer, postgres, webdriver};

/// Where tests find a PostgreSQL: the address of a database in which they may make others.
const POSTGRES_URL: &str = "TIDEMILL_TEST_POSTGRES_URL";

/// Where tests find a MySQL or MariaDB, likewise.
const MYSQL_URL: &str = "TIDEMILL_TEST_MYSQL_URL";

/// Where tests find a Spark: its home.
const SPARK_HOME: &str = "TIDEMILL_TEST_SPARK_HOME";

/// Where tests find a Python that has Airflow with the Amazon provider.
const AIRFLOW_PYTHON: &str = "TIDEMILL_TEST_AIRFLOW_PYTHON";

/// Where tests find a Python that has Airflow 3, and what the tests of the Python client need.
const AIRFLOW3_PYTHON: &str = "TIDEMILL_TEST_AIRFLOW3_PYTHON";

/// Where tests find a Python that has boto3; our own is the same.
const BOTO3_PYTHON: &str = "TIDEMILL_TEST_BOTO3_PYTHON";

/// Where tests find a Python that has openapi-spec-validator and openapi-python-client.
const OPENAPI_PYTHON: &str = "TIDEMILL_TEST_OPENAPI_PYTHON";

/// Where tests find a Python that has aiosmtpd.
const SMTP_PYTHON: &str = "TIDEMILL_TEST_SMTP_PYTHON";

/// Where tests find a Python that has openpyxl, zstandard, pyarrow and fastavro.
const FORMATS_PYTHON: &str = "TIDEMILL_TEST_FORMATS_PYTHON";

/// Where tests find a Python that has moto.
const MOTO_PYTHON: &str = "TIDEMILL_TEST_MOTO_PYTHON";

/// Where tests find a cargo-deny.
const DENY_PROGRAM: &str = "TIDEMILL_TEST_CARGO_DENY";

/// Where tests find a folder with promtool, helm, kubeconform and compose, and what the objects of Kubernetes have to be.
const GO_TOOLS: &str = "TIDEMILL_TEST_GO_TOOLS";

/// Where tests find a cargo-cyclonedx.
const CYCLONEDX_PROGRAM: &str = "TIDEMILL_TEST_CARGO_CYCLONEDX";

/// Where tests find the emulator of AWS Lambda.
const LAMBDA_EMULATOR: &str = "TIDEMILL_TEST_LAMBDA_EMULATOR";

/// What runs for the tests.
#[derive(Debug)]
pub(crate) struct Services {
    postgres: Service<PrivatePostgres>,
    mysql: Service<PrivateMariadb>,
    // Not servers: the tests start them themselves.
    spark: Service<()>,
    airflow: Service<()>,
    airflow3: Service<()>,
    boto3: Service<()>,
    openapi: Service<()>,
    smtp: Service<()>,
    formats: Service<()>,
    moto: Service<()>,
    kafka: Service<PrivateKafka>,
    kafka_home: Service<()>,
    kafka_python: Service<()>,
    spring: Service<()>,
    nexrender: Service<()>,
    deny: Service<()>,
    cyclonedx: Service<()>,
    go_tools: Service<()>,
    lambda: Service<()>,
}

/// A server: where it is, and the server itself when it is our own.
#[derive(Debug)]
struct Service<S> {
    variable: &'static str,
    url: Option<String>,
    // Lives only to be dropped.
    _server: Option<S>,
}

/// Something that the tests need on this machine.
struct Component {
    /// Its name in `TIDEMILL_TEST_SKIP`.
    name: &'static str,
    /// The Debian packages that have it, separated by spaces.
    packages: &'static str,
    is_there: fn() -> bool,
}

const COMPONENTS: [Component; 19] = [
    Component { name: "postgres", packages: "postgresql", is_there: || postgres::find_binaries().is_some() },
    Component { name: "pgbouncer", packages: "pgbouncer", is_there: || pgbouncer::find_binary().is_some() },
    Component { name: "mysql", packages: "mariadb-server", is_there: || mariadb::find_programs().is_some() },
    Component {
        name: "chromium",
        packages: "chromium chromium-driver",
        is_there: || webdriver::find_programs().is_some(),
    },
    Component {
        name: "spark",
        packages: "openjdk-17-jre-headless python3-venv",
        is_there: || given_url(SPARK_HOME).is_some() || spark::can_be_installed(),
    },
    Component {
        name: "airflow",
        packages: "python3-venv",
        is_there: || given_url(AIRFLOW_PYTHON).is_some() || AIRFLOW.can_be_installed(),
    },
    Component {
        name: "airflow3",
        packages: "python3-venv",
        is_there: || given_url(AIRFLOW3_PYTHON).is_some() || AIRFLOW3.can_be_installed(),
    },
    Component {
        name: "boto3",
        packages: "python3-venv",
        is_there: || given_url(BOTO3_PYTHON).is_some() || AIRFLOW.can_be_installed(),
    },
    Component {
        name: "openapi",
        packages: "python3-venv",
        is_there: || given_url(OPENAPI_PYTHON).is_some() || OPENAPI.can_be_installed(),
    },
    Component {
        name: "smtp",
        packages: "python3-venv",
        is_there: || given_url(SMTP_PYTHON).is_some() || SMTP.can_be_installed(),
    },
    Component {
        name: "formats",
        packages: "python3-venv",
        is_there: || given_url(FORMATS_PYTHON).is_some() || FORMATS.can_be_installed(),
    },
    Component {
        name: "moto",
        packages: "python3-venv",
        is_there: || given_url(MOTO_PYTHON).is_some() || MOTO.can_be_installed(),
    },
    Component {
        name: "kafka",
        packages: "openjdk-17-jdk-headless maven python3-venv",
        is_there: kafka::can_be_installed,
    },
    Component {
        name: "spring",
        packages: "openjdk-17-jdk-headless maven",
        is_there: || given_url(SPRING_HOME).is_some() || jars::can_be_fetched(),
    },
    // Apart: a Node from elsewhere does not go together with Debian's.
    Component { name: "nexrender", packages: "nodejs npm", is_there: nexrender::can_be_installed },
    Component { name: "nexrender", packages: "ffmpeg", is_there: nexrender::can_look_at_clips },
    Component {
        name: "go",
        packages: "python3-venv",
        is_there: || given_url(GO_TOOLS).is_some() || go::can_be_built(),
    },
    Component {
        name: "lambda",
        packages: "python3-venv",
        is_there: || given_url(LAMBDA_EMULATOR).is_some() || lambda::can_be_installed(),
    },
    // The documents call it.
    Component { name: "curl", packages: "curl", is_there: || find_program("curl").is_some() },
];

impl Services {
    /// Installs what is missing and starts what is needed.
    pub(crate) fn start(is_long: bool, cancel: &Cancel) -> Result<Self, String> {
        install(cancel)?;
        let postgres = Service::start("postgres", POSTGRES_URL, || {
            let server = PrivatePostgres::start(&PostgresOptions::default())
                .map_err(|error| format!("no private PostgreSQL: {error:?}"))?;
            Ok((server.url("postgres"), format!("private, on port {}", server.port()), Some(server)))
        })?;
        let mysql = Service::start("mysql", MYSQL_URL, || {
            let server = PrivateMariadb::start().map_err(|error| format!("no private MariaDB: {error:?}"))?;
            Ok((server.url("mysql"), format!("private, on port {}", server.port()), Some(server)))
        })?;
        let spark = Service::kept("spark", SPARK_HOME, || spark::home(cancel))?;
        let airflow = Service::kept("airflow", AIRFLOW_PYTHON, || AIRFLOW.python(cancel))?;
        let airflow3 = Service::kept("airflow3", AIRFLOW3_PYTHON, || AIRFLOW3.python(cancel))?;
        let boto3 = Service::kept("boto3", BOTO3_PYTHON, || AIRFLOW.python(cancel))?;
        let openapi = Service::kept("openapi", OPENAPI_PYTHON, || OPENAPI.python(cancel))?;
        let smtp = Service::kept("smtp", SMTP_PYTHON, || SMTP.python(cancel))?;
        let formats = Service::kept("formats", FORMATS_PYTHON, || FORMATS.python(cancel))?;
        let moto = Service::kept("moto", MOTO_PYTHON, || MOTO.python(cancel))?;
        let kafka_home = Service::kept("kafka", HOME, || KAFKA.home(cancel))?;
        let kafka_python = Service::kept("kafka", kafka::PYTHON, || kafka::python(cancel))?;
        let jars = kafka_home.url.as_deref().map(PathBuf::from).unwrap_or_default();
        let kafka = Service::start("kafka", BOOTSTRAP, || {
            let server = PrivateKafka::start_from(&jars, &KafkaOptions::default())
                .map_err(|error| format!("no private Kafka: {error:?}"))?;
            Ok((server.bootstrap_servers(), format!("private, on port {}", server.port()), Some(server)))
        })?;
        let spring = Service::kept("spring", SPRING_HOME, || SPRING.home(cancel))?;
        let nexrender = Service::kept("nexrender", farm::HOME, || nexrender::home(cancel))?;
        let deny = Service::kept("cargo-deny", DENY_PROGRAM, || DENY.program(cancel))?;
        // They take minutes to build, and only what is in `deploy` and the archives need them.
        let rare = |name, variable, program: fn(&Cancel) -> Result<PathBuf, String>| {
            if is_long || given_url(variable).is_some() {
                return Service::kept(name, variable, || program(cancel));
            }
            println!("{name}: only with --long");
            Ok(Service { variable, url: None, _server: None })
        };
        let cyclonedx = rare("cargo-cyclonedx", CYCLONEDX_PROGRAM, |cancel| CYCLONEDX.program(cancel))?;
        let go_tools = rare("go", GO_TOOLS, go::home)?;
        let lambda = Service::kept("lambda", LAMBDA_EMULATOR, || lambda::emulator(cancel))?;
        Ok(Self {
            postgres,
            mysql,
            spark,
            airflow,
            airflow3,
            boto3,
            openapi,
            smtp,
            formats,
            moto,
            kafka,
            kafka_home,
            kafka_python,
            spring,
            nexrender,
            deny,
            cyclonedx,
            go_tools,
            lambda,
        })
    }

    /// Tells a command where they are.
    pub(crate) fn tell(&self, command: &mut Command) {
        self.postgres.tell(command);
        self.mysql.tell(command);
        self.spark.tell(command);
        self.airflow.tell(command);
        self.airflow3.tell(command);
        self.boto3.tell(command);
        self.openapi.tell(command);
        self.smtp.tell(command);
        self.formats.tell(command);
        self.moto.tell(command);
        self.kafka.tell(command);
        self.kafka_home.tell(command);
        self.kafka_python.tell(command);
        self.spring.tell(command);
        self.nexrender.tell(command);
        self.deny.tell(command);
        self.cyclonedx.tell(command);
        self.go_tools.tell(command);
        self.lambda.tell(command);
    }
}

impl<S> Service<S> {
    /// The server that was given to us, or one of our own; none when its tests are skipped.
    fn start(
        name: &str,
        variable: &'static str,
        private: impl FnOnce() -> Result<(String, String, Option<S>), String>,
    ) -> Result<Self, String> {
        if skip::is_named(name) {
            println!("{name}: skipped");
            return Ok(Self { variable, url: None, _server: None });
        }
        if let Some(url) = given_url(variable) {
            println!("{name}: the one that {variable} names");
            return Ok(Self { variable, url: Some(url), _server: None });
        }
        let start = now();
        let (url, place, server) = private()?;
        println!("{name}: {place} ({:.1} s)", now().duration_since(start).as_secs_f64());
        Ok(Self { variable, url: Some(url), _server: server })
    }

    fn tell(&self, command: &mut Command) {
        match &self.url {
            Some(url) => command.env(self.variable, url),
            // One that was given must not be used when its tests are skipped.
            None => command.env_remove(self.variable),
        };
    }
}

impl Service<()> {
    /// No server, but something in the user's cache that the tests start themselves.
    fn kept(
        name: &str,
        variable: &'static str,
        path: impl FnOnce() -> Result<PathBuf, String>,
    ) -> Result<Self, String> {
        Self::start(name, variable, || {
            let path = path()?.display().to_string();
            Ok((path.clone(), path, None))
        })
    }
}

/// The address of a server that was given to us.
fn given_url(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|url| !url.is_empty())
}

/// Whether a server was given that can stand in for a component which is not installed.
fn is_given(component: &Component) -> bool {
    match component.name {
        "postgres" => given_url(POSTGRES_URL).is_some(),
        "mysql" => given_url(MYSQL_URL).is_some(),
        _ => false,
    }
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
        if missing.iter().all(|component| is_given(component)) {
            println!("{advice}");
            return Ok(());
        }
        return Err(advice);
    };
    let packages = packages(&missing);
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

/// The Debian packages that have what is missing, each once.
fn packages(missing: &[&Component]) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for package in missing.iter().flat_map(|component| component.packages.split(' ')) {
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    packages
}

fn advice(missing: &[&Component]) -> String {
    let mut names: Vec<&str> = missing.iter().map(|component| component.name).collect();
    names.dedup();
    format!(
        "missing on this machine: {}. Install the Debian packages {} (root on Debian gets them installed), \
         or set {}={} to skip their tests",
        names.join(", "),
        packages(missing).join(" "),
        skip::SKIP,
        names.join(","),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_misses_something_learns_the_packages_and_the_way_without() {
        let missing: Vec<&Component> = COMPONENTS.iter().collect();

        let advice = advice(&missing);

        assert!(
            advice.contains(
                "packages postgresql pgbouncer mariadb-server chromium chromium-driver openjdk-17-jre-headless \
                 python3-venv openjdk-17-jdk-headless maven nodejs npm ffmpeg curl "
            ),
            "{advice}"
        );
        let names = "postgres,pgbouncer,mysql,chromium,spark,airflow,airflow3,boto3,openapi,smtp,formats,moto,kafka,\
                     spring,nexrender,go,lambda,curl";
        assert!(advice.contains(&format!("TIDEMILL_TEST_SKIP={names} ")), "{advice}");
    }
}
