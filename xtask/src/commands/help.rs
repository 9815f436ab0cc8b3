//! `cargo xtask help`: what can be asked for.

use std::process::ExitCode;

/// What every answer about usage says.
pub(crate) const TEXT: &str = "\
Usage: cargo xtask <command>

Commands:
  test [cargo test arguments]  run every test with private servers; arguments replace `--workspace`
  ci                           check format and lints, then run every test
  help                         show this

Environment:
  TIDEMILL_TEST_SKIP           components whose tests are skipped, separated by commas: postgres, pgbouncer,
                               chromium, mount
  TIDEMILL_TEST_POSTGRES_URL   a PostgreSQL to test against instead of a private one
";

/// Shows what can be asked for.
pub(crate) fn run() -> ExitCode {
    print!("{TEXT}");
    ExitCode::SUCCESS
}
