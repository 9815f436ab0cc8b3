//! `cargo xtask help`: what can be asked for.

use std::process::ExitCode;

/// What every answer about usage says.
pub(crate) const TEXT: &str = "\
Usage: cargo xtask <command>

Commands:
  test [--long] [arguments]    run every test with private servers; arguments of `cargo nextest run` replace `--workspace`;
                               --long runs every case of sweeps that otherwise run in a short form
  ci                           check format and lints, then run every test
  bench jobs                   measure chunk jobs against bare COPY and Spring Batch; --rows N, --rounds N, --long
  bench history                measure launch, lists and purge on a long history of jobs against a short one;
                               [--executions 1000000] [--rounds 31]
  bench lists                  time to the first byte of each page and list of the program over a long history;
                               [--executions 1000000] [--leases 100000] [--events 1000000] [--rounds 11]
  bench pools                  measure passes against one transaction for each request, and decisions among many leases;
                               [--seconds 3] [--clients 64] [--leases 100000] [--pools 200]
  bench outbox                 measure relays against rows that are claimed and marked, without a broker;
                               [--events 300000] [--rounds 5] [--retained 1000000] [--idle-seconds 30]
  bench outbox --kafka         repeat the experiment with one awaited record after the other, on a real Kafka;
                               [--events 10000] [--many 300000] [--rounds 3] [--seconds 20]
  bench renders                measure claims of many workers, how soon a render is picked up, and how long a queue of
                               short films takes; [--workers 16] [--renders 2000] [--pickups 200] [--films 200]
  chaos jobs                   kill a job at random times on both databases and look whether its work is exact;
                               [--kills 100] [--rows 200000] [--seed N]
  chaos partitions             kill the processes that run the partitions of a job, and the one that runs the job;
                               [--kills 20] [--rows 1000000] [--workers 4] [--seed N]
  chaos outbox                 kill and stop relays, restart their database and lose what it answers, and look whether
                               anything is lost, out of order or there too often; [--kills 100] [--minutes 5] [--seed N]
                               [--kafka], which is paused and killed as well, [--transactional], the same with
                               transactions of Kafka, or [--attached], a table that was there before
  dist                         archives of the program for Linux, with man pages, completions, licences, an SBOM and checksums;
                               and those of the function for AWS Lambda; [--target TRIPLE], [--binary FILE] packs this
                               program instead of building one, [--bootstrap FILE] likewise the function,
                               [--out target/dist-archives]
  size                         count the lines of product code, by crate
  help                         show this

Environment:
  TIDEMILL_TEST_SKIP           components whose tests are skipped, separated by commas: postgres, pgbouncer,
                               mysql, chromium, spark, airflow, airflow3, boto3, openapi, smtp, formats, moto, kafka,
                               spring, nexrender, cargo-deny, cargo-cyclonedx, go, lambda, curl, mount
  TIDEMILL_TEST_POSTGRES_URL   a PostgreSQL to test against instead of a private one
  TIDEMILL_TEST_MYSQL_URL      a MySQL or MariaDB to test against instead of a private one
  TIDEMILL_TEST_SPARK_HOME     a Spark to test with instead of one in the user's cache
  TIDEMILL_TEST_AIRFLOW_PYTHON a Python with Airflow, likewise
  TIDEMILL_TEST_AIRFLOW3_PYTHON a Python with Airflow 3, mypy and psycopg, likewise
  TIDEMILL_TEST_BOTO3_PYTHON   a Python with boto3, likewise
  TIDEMILL_TEST_OPENAPI_PYTHON a Python with openapi-spec-validator and openapi-python-client, likewise
  TIDEMILL_TEST_SMTP_PYTHON    a Python with aiosmtpd, likewise
  TIDEMILL_TEST_FORMATS_PYTHON a Python with openpyxl, zstandard, pyarrow and fastavro, likewise
  TIDEMILL_TEST_MOTO_PYTHON    a Python with moto, likewise
  TIDEMILL_TEST_KAFKA          a broker (HOST:PORT) to test against instead of a private one
  TIDEMILL_TEST_KAFKA_HOME     a folder with the jars of Kafka instead of one in the user's cache
  TIDEMILL_TEST_KAFKA_PYTHON   a Python with confluent-kafka, likewise
  TIDEMILL_TEST_SPRING_HOME    a folder with the jars of Spring Batch, likewise
  TIDEMILL_TEST_NEXRENDER_HOME a folder with the packages of nexrender, likewise
  TIDEMILL_TEST_CARGO_DENY     a cargo-deny to check the dependencies with, likewise
  TIDEMILL_TEST_CARGO_CYCLONEDX a cargo-cyclonedx, likewise
  TIDEMILL_TEST_GO_TOOLS       a folder with promtool, helm, kubeconform, compose and their schemas, likewise
  TIDEMILL_TEST_LAMBDA_EMULATOR an emulator of AWS Lambda (aws-lambda-rie), likewise
  TIDEMILL_TEST_PICTURES       a folder for pictures of all pages of the dashboard
";

/// Shows what can be asked for.
pub(crate) fn run() -> ExitCode {
    print!("{TEXT}");
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_in_the_table_for_contributors_is_told_here_too() {
        let page = include_str!("../../../CONTRIBUTING.md");
        let names: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .filter(|name| name.starts_with("TIDEMILL_TEST_"))
            .collect();
        assert!(names.contains(&"TIDEMILL_TEST_SKIP"), "{names:?}");

        let told: Vec<&str> = TEXT.split_whitespace().collect();
        let missing: Vec<&str> = names.into_iter().filter(|name| !told.contains(name)).collect();

        assert_eq!(missing, Vec::<&str>::new());
    }
}
