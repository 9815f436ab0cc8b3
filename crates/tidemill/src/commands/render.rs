//! `tidemill render`: order renders, and turn them into verified files on the NAS with nexrender.

mod batch;
mod delete;
mod init;
mod look;
mod mapping;
mod operate;
pub(super) mod setup;
mod submit;
mod template;
pub(super) mod worker;
pub(super) use setup::Setup;

use crate::commands::prelude::*;
use crate::commands::{Flag, examples, finish, read_input};
use crate::config::Origin;
use clap::ValueEnum;
use std::path::Path;
use tidemill_declare::Diagnostics;
use tidemill_declare::render::Format;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::gfx::{BadGfx, GFX_BYTES_MAX};
use tidemill_engine::render::BadMaterial;
use tidemill_store::Tx;

#[derive(Subcommand, Debug)]
pub(crate) enum RenderCommand {
    /// Write and check the configuration of a worker; asks on a terminal
    #[command(after_help = examples(&[
        "render init",
        "render init --url http://render01:3000 --mount /mnt/nas",
    ]))]
    Init(init::Init),
    /// Order a render, or one for each row of a CSV file
    Submit(submit::Submit),
    /// Show how far a batch of renders is
    Batch(batch::Batch),
    /// List renders, newest first
    List(look::List),
    /// Show a render with its attempts and status changes
    Show(look::Show),
    /// Cancel renders; a node that is rendering finishes, but its file is discarded
    Cancel(operate::Orders),
    /// Approve the files of renders that wait for it, so that they are published
    Approve(operate::Approve),
    /// Reject the files of renders that wait for approval; the renders fail
    Reject(operate::Reject),
    /// Retry renders that failed, were cancelled or wait for their next attempt
    Retry(operate::Orders),
    /// Change the priority of waiting renders, and so their places in the queue
    Prioritize(operate::Prioritize),
    /// Render a render that has ended again, with corrected data
    Correct(operate::Correct),
    /// Recover renders whose worker disappeared, without waiting for the next check
    Recover(operate::Recover),
    /// Delete renders that ended long ago; without --yes, only count them
    #[command(alias = "purge")]
    Delete(delete::Delete),
    /// Print the job that nexrender would get, without ordering a render
    Plan(submit::Plan),
    /// Wake all workers
    Poll,
    /// Run a render worker until it is stopped
    Worker(worker::WorkerArguments),
    /// List the workers
    Workers,
    /// Encrypt data that is in clear or under an old key with the current key
    Reseal,
    /// Field mappings: which layer shows which field
    #[command(subcommand, after_help = examples(&[
        "render mapping import mapping.csv --dry-run",
        "render mapping list",
    ]))]
    Mapping(mapping::MappingCommand),
    /// Profiles of compositions
    #[command(subcommand, after_help = examples(&[
        "render profile import profiles.csv --dry-run",
        "render profile list",
    ]))]
    Profile(mapping::ProfileCommand),
    /// After Effects projects: draft profiles and mappings, and check mappings
    #[command(subcommand, after_help = examples(&[
        "render template scan cyprusdesign.aepx",
        "render template scan cyprusdesign.aepx --check mapping.csv",
        "render template script",
    ]))]
    Template(template::TemplateCommand),
}

impl RenderCommand {
    pub(super) fn as_flags(&self) -> Vec<Flag> {
        match self {
            Self::Init(init) => init.as_flags(),
            Self::Worker(worker) => worker.as_flags(),
            _ => Vec::new(),
        }
    }
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: RenderCommand, context: &Context) -> Result<Exit> {
    refuse_supabase(context)?;
    match command {
        RenderCommand::Init(arguments) => init::run(&arguments, context).await,
        RenderCommand::Submit(arguments) => submit::run(arguments, context).await,
        RenderCommand::Batch(arguments) => batch::show(&arguments, context).await,
        RenderCommand::List(arguments) => look::list(arguments, context).await,
        RenderCommand::Show(arguments) => look::show(&arguments, context).await,
        RenderCommand::Cancel(orders) => operate::cancel(&orders, context).await,
        RenderCommand::Approve(arguments) => operate::approve(&arguments, context).await,
        RenderCommand::Reject(orders) => operate::reject(&orders, context).await,
        RenderCommand::Retry(orders) => operate::retry(&orders, context).await,
        RenderCommand::Prioritize(arguments) => operate::prioritize(&arguments, context).await,
        RenderCommand::Correct(arguments) => operate::correct(arguments, context).await,
        RenderCommand::Recover(arguments) => operate::recover(&arguments, context).await,
        RenderCommand::Delete(arguments) => delete::run(&arguments, context).await,
        RenderCommand::Plan(arguments) => submit::plan(&arguments, context).await,
        RenderCommand::Poll => operate::poll(context).await,
        RenderCommand::Worker(arguments) => worker::run(&arguments, context).await,
        RenderCommand::Workers => look::workers(context).await,
        RenderCommand::Reseal => operate::reseal(context).await,
        RenderCommand::Mapping(mapping) => mapping::run(mapping, context).await,
        RenderCommand::Profile(profile) => mapping::run_profile(profile, context).await,
        RenderCommand::Template(template) => template::run(&template, context).await,
    }
}

/// An environment made for Supabase's HTTP API does not configure the database of Tidemill. Without this error the
/// program would use an empty SQLite file as its queue.
pub(super) fn refuse_supabase(context: &Context) -> Result<()> {
    let is_default = |path: &str| {
        let value = context.loaded.values.iter().find(|value| value.key.path == path);
        value.is_some_and(|value| value.origin == Origin::Default)
    };
    let given = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (url, secret) = (given("SUPABASE_URL"), given("SUPABASE_KEY"));
    let name = match (&url, secret) {
        (Some(_), _) => "SUPABASE_URL",
        (None, Some(_)) => "SUPABASE_KEY",
        (None, None) => return Ok(()),
    };
    if !is_default("database.url") {
        return Ok(());
    }
    let fix = format!(
        "set TIDEMILL_DATABASE_URL to {} and TIDEMILL_DATABASE_PASSWORD to the password of the database",
        database_of(&url.unwrap_or_default())
    );
    let what = format!("{name} is set, but no database is configured");
    Err(Failure::new(Code::SupabaseNotSpoken, what, fix)
        .because("Tidemill needs transactions, which the HTTP API of Supabase does not have"))
}

/// The database URL of the project in a Supabase URL.
fn database_of(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', ':', '?']).next();
    let project = host.and_then(|host| host.strip_suffix(".supabase.co"));
    let is_plain = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let project = project.filter(is_plain).unwrap_or("PROJECT");
    format!("postgres://postgres@db.{project}.supabase.co:5432/postgres")
}

/// Commits, or rolls back a dry run and says so.
async fn finish_import(tx: Tx, is_dry: bool, context: &Context) -> Result<()> {
    finish(tx, is_dry).await?;
    if is_dry {
        context.note("dry run: nothing changed");
    }
    Ok(())
}

fn unknown(id: RenderId) -> Failure {
    Failure::new(Code::RenderNotFound, format!("there is no render {id}"), "see `tidemill render list`")
}

fn render_id(text: &str) -> Result<RenderId, String> {
    let id = text.parse().ok().filter(|id: &i64| *id > 0);
    id.map(RenderId::new).ok_or_else(|| "use a whole number from 1 on".to_owned())
}

impl From<BadMaterial> for Failure {
    fn from(bad: BadMaterial) -> Self {
        let (code, fix, problems) = (bad.code(), bad.fix(), bad.problems());
        match (bad, problems.len()) {
            (BadMaterial::Store(error), _) => error.into(),
            (_, 0 | 1) => Self::new(code, problems.concat(), fix),
            (_, count) => {
                let what = format!("the render has {count} problems");
                Self::new(code, what, fix).because(problems.join("\n"))
            }
        }
    }
}

const BYTES_MAX: usize = 20_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values with a header
    Csv,
    /// List of mappings with one key per column
    Yaml,
}

impl From<FileFormat> for Format {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Csv => Self::Csv,
            FileFormat::Yaml => Self::Yaml,
        }
    }
}

/// Reads a file. Without a format, the file name decides.
fn read_table<T>(
    file: &Path,
    format: Option<FileFormat>,
    code: Code,
    read: impl Fn(&Path, &[u8], Format) -> Result<Vec<T>, Diagnostics>,
) -> Result<Vec<T>> {
    let format = format.map(Format::from).or_else(|| Format::of(file)).ok_or_else(|| {
        let what = format!("the name of {} does not say whether it is CSV or YAML", file.display());
        Failure::new(Code::Usage, what, "add --format csv or --format yaml")
    })?;
    let bytes = read_bytes(file, BYTES_MAX)?.ok_or_else(|| {
        let what = format!("{} is larger than {} MB", file.display(), BYTES_MAX / 1_000_000);
        Failure::new(code, what, "split it into several files")
    })?;
    read(file, &bytes, format).map_err(|wrong| Failure::of_file(&wrong, code))
}

/// The text of a file, or of standard input if it is `-`. Reading stops at the size limit.
fn read_data(file: &Path) -> Result<String> {
    let bytes = read_bytes(file, GFX_BYTES_MAX)?
        .ok_or_else(|| Failure::from(BadMaterial::Data(BadGfx::TooLarge { bytes: GFX_BYTES_MAX + 1 })))?;
    String::from_utf8(bytes).map_err(|error| {
        let why = error.utf8_error().to_string();
        BadMaterial::Data(BadGfx::NotJson { why }).into()
    })
}

/// None when the file has more than `most` bytes.
fn read_bytes(file: &Path, most: usize) -> Result<Option<Vec<u8>>> {
    let bytes = read_input(file, most).map_err(|error| {
        let fix = "use a readable file, or - for standard input";
        Failure::new(Code::FileUnreadable, format!("cannot read {}", file.display()), fix).because(error)
    })?;
    Ok((bytes.len() <= most).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_project_is_named() {
        let check = |url: &str, host: &str| {
            assert_eq!(database_of(url), format!("postgres://postgres@{host}:5432/postgres"));
        };

        check("https://abcd1234.supabase.co", "db.abcd1234.supabase.co");
        check("https://abcd1234.supabase.co/rest/v1", "db.abcd1234.supabase.co");
        for other in ["https://queue.example.com", "", "x", "https://a b.supabase.co"] {
            check(other, "db.PROJECT.supabase.co");
        }
    }
}
