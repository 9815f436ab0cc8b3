//! `App`: parses the command line, reads the configuration, runs one command, reports, and ends with its code.

use crate::commands::{self, Command, Flag, given};
use crate::config::{self, ColorChoice, ConfigError, Loaded, Output, Sources};
use crate::context::{Context, identity};
use crate::declared::{Definitions, JobFolder};
use crate::output::show_wide;
use crate::report::{self, Failure};
use crate::{telemetry, usage, watch};
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tidemill_domain::code::Exit;
use tidemill_engine::job::{Job, JobRegistry};
use tidemill_engine::schedule::{Schedule, ScheduleRegistry};

/// Batch operations on the database you already have.
#[derive(Parser, Debug)]
#[command(
    name = "tidemill",
    version,
    after_help = "Exit codes: `tidemill explain exit-codes`. Errors: `tidemill explain CODE`."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command. Without them the configuration applies.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Configuration file instead of ./tidemill.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Database, overrides database.url
    #[arg(long, global = true, value_name = "URL")]
    database: Option<String>,
    /// Output format: a table for people, or json, jsonl or csv for programs
    #[arg(short, long, global = true, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(Output::NAMES))]
    output: Option<String>,
    /// Only errors on standard error
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// More detail in the log; repeat for even more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Show all columns of tables in full, with absolute times
    #[arg(long, global = true)]
    wide: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", value_parser = clap::builder::PossibleValuesParser::new(ColorChoice::NAMES))]
    color: Option<String>,
}

impl Global {
    fn as_flags(&self) -> Vec<Flag> {
        let level = match (self.quiet, self.verbose) {
            (true, _) => Some("error"),
            (false, 0) => None,
            (false, 1) => Some("info"),
            (false, 2) => Some("debug"),
            (false, _) => Some("trace"),
        };
        let level_flag = if self.quiet { "--quiet" } else { "--verbose" };
        given([
            ("database.url", "--database", &self.database),
            ("output", "--output", &self.output),
            ("color", "--color", &self.color),
            ("log.level", level_flag, &level.map(str::to_owned)),
        ])
    }

    fn load(&self, command: &Command) -> Result<Loaded, ConfigError> {
        let mut sources = Sources::from_process()?;
        sources.flags = self.as_flags();
        sources.flags.extend(command.as_flags());
        sources.config_file = self.config.clone();
        config::load(&sources)
    }
}

/// A program with the command line of Tidemill and its own jobs.
///
/// ```no_run
/// use tidemill::prelude::*;
///
/// fn main() -> std::process::ExitCode {
///     let double = Step::chunk("double", 100)
///         .reader(ItemsReader::new("numbers", 1..=1000))
///         .process(|n: &i64| Ok(Some(n * 2)))
///         .writer(ItemsWriter::default())
///         .build();
///     App::new().job(Job::new("hello").step(double)).run()
/// }
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct App {
    jobs: Vec<Job>,
    schedules: Vec<Schedule>,
}

impl App {
    /// The stock program, which has no jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a job, which `job run` and the server can then launch.
    #[must_use]
    pub fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds several jobs.
    #[must_use]
    pub fn jobs(mut self, jobs: impl IntoIterator<Item = Job>) -> Self {
        self.jobs.extend(jobs);
        self
    }

    /// Adds a schedule of one of the jobs, which `serve` then fires.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// Runs the command that the arguments of the process name, and returns its exit code.
    pub fn run(self) -> ExitCode {
        self.run_with(std::env::args_os())
    }

    /// [`run`](Self::run) with other arguments; the first is the program's name.
    pub fn run_with(self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> ExitCode {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let (cli, interval) = match parse(&arguments) {
            Ok(parsed) => parsed,
            Err(error) => return usage::report(error, command_line(), &arguments),
        };
        let ended = self.start(cli, interval, &arguments).unwrap_or_else(|(failure, output)| {
            report::print(&failure, output);
            failure.number
        });
        ExitCode::from(ended)
    }

    /// Runs the command, and returns the number that the shell sees; on failure also says in which form to report.
    /// With `interval` the command is repeated, for which the arguments are parsed again.
    fn start(
        self,
        cli: Cli,
        interval: Option<Duration>,
        arguments: &[OsString],
    ) -> Result<u8, (Failure, Output)> {
        show_wide(cli.global.wide);
        let format = cli.global.output.as_deref().and_then(|word| word.parse().ok());
        let early = |failure| (failure, format.unwrap_or(Output::Table));
        let jobs = JobRegistry::new(self.jobs).map_err(|error| early(error.into()))?;
        let schedules = ScheduleRegistry::new(self.schedules, &jobs).map_err(|error| early(error.into()))?;
        if !cli.command.needs_configuration() {
            let choice = cli.global.color.as_deref().and_then(|word| word.parse().ok());
            color(choice.unwrap_or(ColorChoice::Auto));
            return commands::run_plain(cli.command).map(Exit::number).map_err(early);
        }
        let loaded = cli.global.load(&cli.command).map_err(|error| early(error.into()))?;
        let output = loaded.settings.output;
        color(loaded.settings.color);
        let late = |failure| (failure, output);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(worker_threads())
            .enable_all()
            .build()
            .map_err(|error| (Failure::unexpected("the runtime could not be started", &error), output))?;
        let instance = identity(&loaded.settings).name;
        let otlp = telemetry::start_otlp(&loaded.settings.telemetry, instance, &runtime).map_err(late)?;
        telemetry::start_log(&loaded.settings.log, loaded.settings.color, otlp.as_ref());
        tidemill_engine::environment::withhold(loaded.secret_variables.iter().cloned());
        #[cfg(feature = "objects")]
        crate::declared::install_objects(&loaded.settings);
        let own = Definitions::of(jobs, schedules);
        let folder = match cli.command.needs_jobs() {
            true => JobFolder::of(own.clone(), &loaded, cli.command.parameters()).map_err(late)?,
            false => None,
        };
        let definitions = folder.as_ref().map_or(Ok(own), JobFolder::load).map_err(late)?;
        let program = arguments.first().map(PathBuf::from).unwrap_or_default();
        let context = Context::new(loaded, definitions, folder, &program);
        let again = || match parse(arguments) {
            Ok((cli, _)) => Ok(cli.command),
            Err(error) => Err(Failure::unexpected("the arguments cannot be parsed again", &error)),
        };
        let ended = runtime.block_on(async {
            let metrics_interval = context.settings().telemetry.metrics_interval;
            if let Some(otlp) = otlp.clone() {
                telemetry::run_otlp(otlp, metrics_interval);
            }
            let ended = match interval {
                Some(interval) => watch::run(interval, again, &context).await,
                None => commands::run(cli.command, &context).await,
            };
            context.close().await;
            if let Some(otlp) = otlp {
                telemetry::stop_otlp(otlp).await;
            }
            ended
        });
        // Code of a job that never awaits must not keep the program from ending.
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        ended.map_err(late)
    }
}

/// How long tasks that still run at the end may take to reach an await.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// At least four, even with fewer processors: code of a job that computes for long without an await blocks a thread, and
/// heartbeats need another.
fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(4, |processors| processors.get().max(4))
}

/// Also returns the interval of `--watch`.
fn parse(arguments: &[OsString]) -> Result<(Cli, Option<Duration>), clap::Error> {
    let matches = command_line().try_get_matches_from(arguments)?;
    Ok((Cli::from_arg_matches(&matches)?, watch::interval(&matches)))
}

/// With `auto`, `anstream` uses colours on terminals only, and honours `NO_COLOR`, `CLICOLOR_FORCE` and `TERM=dumb`.
fn color(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

pub(crate) fn command_line() -> clap::Command {
    watch::add(Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command_line().debug_assert();
    }

    /// The groups of commands below `command`, with the text after their help.
    fn groups(command: &clap::Command) -> Vec<(String, String)> {
        let below = command.get_subcommands().filter(|one| one.has_subcommands());
        below
            .flat_map(|one| {
                let text = one.get_after_help().map(ToString::to_string).unwrap_or_default();
                let mut found = groups(one);
                found.push((one.get_name().to_owned(), text));
                found
            })
            .collect()
    }

    #[test]
    fn every_group_has_examples_and_each_of_them_is_understood() {
        let groups = groups(&command_line());
        assert!(groups.len() >= 16, "{groups:?}");
        for (name, text) in groups {
            let examples: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("  tidemill ")).collect();
            assert!(!examples.is_empty(), "{name} has no examples");
            for example in examples {
                // As a shell does: blanks separate words, except between quotes.
                let words = example.split('\'').enumerate().flat_map(|(index, part)| match index % 2 {
                    0 => part.split_whitespace().collect(),
                    _ => vec![part],
                });
                let words = std::iter::once("tidemill").chain(words);
                assert!(command_line().try_get_matches_from(words).is_ok(), "{example}");
            }
        }
    }

    #[test]
    fn a_job_that_makes_no_sense_is_refused_before_anything_else() {
        let nowhere = ["x", "--database", "postgres://nobody@127.0.0.1:1/x", "job", "list"];
        let refused = |jobs: [&str; 2]| App::new().jobs(jobs.map(Job::new)).run_with(nowhere);

        // Without the jobs, the command fails because the database cannot be reached.
        assert_eq!(refused(["no step", "either"]), ExitCode::from(Exit::Usage.number()));
        assert_eq!(App::new().run_with(nowhere), ExitCode::from(Exit::Unreachable.number()));
    }

    #[cfg(feature = "objects")]
    #[test]
    fn the_jobs_of_a_program_without_job_files_can_use_object_stores() {
        let nowhere = ["x", "--database", "postgres://nobody@127.0.0.1:1/x", "job", "list"];

        let _unreachable = App::new().run_with(nowhere);

        assert!(tidemill_engine::item::storage::is_installed());
    }
}
