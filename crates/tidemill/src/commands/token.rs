//! `tidemill token`: API tokens.

use crate::commands::prelude::*;
use std::time::Duration;
use tidemill_api::token::Token;
use tidemill_domain::access::{ROLES, SCOPES_MAX, is_scope, is_token_name};
use tidemill_domain::audit::Role;
use tidemill_domain::duration;
use tidemill_engine::SystemIds;
use tidemill_store::token::NewToken;

#[derive(Subcommand, Debug)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once
    Create(Create),
    /// List tokens, without their secrets
    List,
    /// Delete a token and end its sessions
    #[command(aliases = ["revoke", "rm"])]
    Delete {
        /// Id of the token: the eight characters after `tm_`
        id: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// Name of the token
    #[arg(value_parser = name)]
    name: String,
    /// Role: viewer, operator, admin, worker or requester
    #[arg(long, default_value = "viewer", value_parser = role)]
    role: Role,
    /// Limit the token to an object such as pool/etl, or to a prefix such as pool/etl*; can be repeated
    #[arg(long = "scope", value_parser = scope)]
    scopes: Vec<String>,
    /// How long the token is valid, such as 90d
    #[arg(long, default_value = "90d", value_parser = lifetime)]
    expires: Duration,
}

fn name(text: &str) -> Result<String, String> {
    let why = "use 1 to 100 characters without control characters";
    is_token_name(text).then(|| text.to_owned()).ok_or_else(|| why.to_owned())
}

fn role(text: &str) -> Result<Role, String> {
    let found = text.parse().ok().filter(|role| ROLES.contains(role));
    found.ok_or_else(|| "use viewer, operator, admin, worker or requester".to_owned())
}

fn scope(text: &str) -> Result<String, String> {
    let why = "use an object such as pool/etl or pool/etl*";
    is_scope(text).then(|| text.to_owned()).ok_or_else(|| why.to_owned())
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text).map_err(|_| "use a duration such as 90d or 12h".to_owned())?;
    let (least, most) = (Duration::from_secs(60), Duration::from_secs(3650 * 86_400));
    if (least..=most).contains(&parsed) { Ok(parsed) } else { Err("use a duration from 1m to 3650d".into()) }
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: TokenCommand, context: &Context) -> Result<Exit> {
    match command {
        TokenCommand::Create(arguments) => create(arguments, context).await,
        TokenCommand::List => list(context).await,
        TokenCommand::Delete { id } => delete(&id, context).await,
    }
}

async fn create(arguments: Create, context: &Context) -> Result<Exit> {
    let Create { name, role, scopes, expires } = arguments;
    if scopes.len() > SCOPES_MAX {
        let what = format!("a token has at most {SCOPES_MAX} scopes");
        return Err(Failure::new(Code::Usage, what, "use fewer scopes, or a prefix with *"));
    }
    let failed = |error| Failure::unexpected("the operating system returned no random bytes", &error);
    let token = SystemIds.token().map_err(failed)?;
    let new = NewToken { name, role, scopes, valid_for: Some(expires) };
    let mut tx = context.begin().await?;
    let record = tx.tokens().create(&token, &new, &context.actor()).await?;
    tx.commit().await?;
    let end = record.expires_at.map_or_else(|| "never".to_owned(), |end| end.to_string());
    context.note(&format!(
        "token {} ({}, role {}) expires {end}. Copy it now, it is not shown again:",
        record.id, record.name, record.role
    ));
    write_stdout(format!("{}\n", token.expose()))
}

async fn list(context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let records = tx.tokens().list(1000).await?;
    let records = records.iter().map(|record| (record, now));
    let empty = "No tokens yet. Create one with `tidemill token create NAME`.";
    let columns = "id name role scopes? state created_at?? created_by?? expires_at last_used_at?";
    context.print_list::<Token, _>("tidemill.token/v1", empty, records, columns)
}

async fn delete(id: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let is_deleted = tx.tokens().revoke(id, &context.actor()).await?;
    tx.commit().await?;
    if !is_deleted {
        let what = format!("there is no valid token {:?}", id.chars().take(20).collect::<String>());
        return Err(Failure::new(Code::NotFound, what, "see `tidemill token list`"));
    }
    context.done(&format!("token {id} is deleted and its sessions have ended"))
}
