//! `tidemill render`: from an order to a verified file on the NAS, through nexrender.

mod file;
mod look;
mod mapping;
mod operate;
mod plan;
mod profile;
pub(super) mod setup;
mod submit;
pub(super) mod worker;

use crate::commands::Flag;
use crate::config::Origin;
use crate::context::Context;
use crate::report::Failure;
use clap::Subcommand;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::render::RenderId;
use tidemill_engine::render::BadMaterial;

pub(super) use setup::Setup;

/// From an order to a verified file on the NAS
#[derive(Subcommand, Debug)]
pub(crate) enum RenderCommand {
    /// Order a render
    Submit(submit::Submit),
    /// The renders, the newest first
    List(look::List),
    /// All about one render: where it is, what was tried, and what has happened to it
    Show(look::Show),
    /// Give renders up; what a node is rendering goes on there, and its file is thrown away
    Cancel(operate::Orders),
    /// Try renders again at once that failed, were cancelled, or wait for another attempt
    Retry(operate::Orders),
    /// Take renders from workers that have vanished, without waiting for the next look
    Recover(operate::Recover),
    /// Show the job that nexrender would get, without ordering anything
    Plan(plan::Plan),
    /// Let all workers look for renders at once
    Poll,
    /// Render, together with the other workers, until told to stop
    Worker(worker::WorkerArguments),
    /// The workers that render
    Workers,
    /// Encrypt data anew that is stored in clear or under another key than the current one
    Reseal,
    /// On which layers fields are shown
    #[command(subcommand)]
    Mapping(mapping::MappingCommand),
    /// What is known of compositions
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
}

impl RenderCommand {
    pub(super) fn as_flags(&self) -> Vec<Flag> {
        match self {
            Self::Worker(worker) => worker.as_flags(),
            _ => Vec::new(),
        }
    }
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: RenderCommand, context: &Context) -> Result<Exit, Failure> {
    refuse_supabase(context)?;
    match command {
        RenderCommand::Submit(arguments) => submit::run(arguments, context).await,
        RenderCommand::List(arguments) => look::list(arguments, context).await,
        RenderCommand::Show(arguments) => look::show(&arguments, context).await,
        RenderCommand::Cancel(orders) => operate::cancel(&orders, context).await,
        RenderCommand::Retry(orders) => operate::retry(&orders, context).await,
        RenderCommand::Recover(arguments) => operate::recover(&arguments, context).await,
        RenderCommand::Plan(arguments) => plan::run(&arguments, context).await,
        RenderCommand::Poll => operate::poll(context).await,
        RenderCommand::Worker(arguments) => worker::run(&arguments, context).await,
        RenderCommand::Workers => look::workers(context).await,
        RenderCommand::Reseal => operate::reseal(context).await,
        RenderCommand::Mapping(mapping) => mapping::run(mapping, context).await,
        RenderCommand::Profile(profile) => profile::run(profile, context).await,
    }
}

/// Whoever brings the environment of an older worker has to be told that its database is another setting here. Without
/// that, an empty file beside the program would be taken for the queue.
pub(super) fn refuse_supabase(context: &Context) -> Result<(), Failure> {
    let is_default = |path: &str| {
        let value = context.loaded().values.iter().find(|value| value.key.path == path);
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
    let what = format!("{name} is set, and no database");
    Err(Failure::new(Code::SupabaseNotSpoken, what, fix).because(
        "the queue is read and written in transactions, which the HTTP interface of Supabase does not have",
    ))
}

/// The database of the project that an address of Supabase names.
fn database_of(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', ':', '?']).next();
    let project = host.and_then(|host| host.strip_suffix(".supabase.co"));
    let is_plain = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let project = project.filter(is_plain).unwrap_or("PROJECT");
    format!("postgres://postgres@db.{project}.supabase.co:5432/postgres")
}

fn unknown(id: RenderId) -> Failure {
    Failure::new(Code::RenderNotFound, format!("there is no render {id}"), "see `tidemill render list`")
}

fn render_id(text: &str) -> Result<RenderId, String> {
    let id = text.parse().ok().filter(|id: &i64| *id > 0);
    id.map(RenderId::new).ok_or_else(|| "write a whole number from 1 on".to_owned())
}

impl From<BadMaterial> for Failure {
    fn from(bad: BadMaterial) -> Self {
        let fix = bad.fix();
        let problems = bad.problems();
        match (&bad, problems.as_slice()) {
            (BadMaterial::Store(error), _) => {
                Self::new(error.code(), error.to_string(), error.fix()).because_of(error)
            }
            (_, [_, _, ..]) => {
                let what = format!("the render has {} faults", problems.len());
                Self::new(bad.code(), what, fix).because(&problems.join("\n"))
            }
            _ => Self::new(bad.code(), problems.join("; "), fix),
        }
    }
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
