//! `tidemill token`: who may call the server.

use crate::context::Context;
use crate::output::write_stdout;
use crate::report::Failure;
use clap::{Args, Subcommand};
use serde_json::json;
use std::time::Duration;
use tidemill_domain::access::{ROLES, SCOPES_MAX, is_scope, is_token_name};
use tidemill_domain::audit::Role;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::duration;
use tidemill_domain::time::Timestamp;
use tidemill_engine::SystemIds;
use tidemill_store::token::{NewToken, TokenRecord};

/// API tokens
#[derive(Subcommand, Debug)]
pub(crate) enum TokenCommand {
    /// Create a token and show it, once
    Create(Create),
    /// The tokens, without their secrets
    List,
    /// End a token and every session that was opened with it
    Revoke {
        /// Its public part: the eight characters after `tm_`
        id: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// What people call it
    #[arg(value_parser = name)]
    name: String,
    /// What its bearer is: viewer, operator, admin, worker or requester
    #[arg(long, default_value = "viewer", value_parser = role)]
    role: Role,
    /// Limit it to an object such as pool/etl, or to the beginning of one such as pool/etl*; may be repeated
    #[arg(long = "scope", value_parser = scope)]
    scopes: Vec<String>,
    /// How long it is valid, such as 90d
    #[arg(long, default_value = "90d", value_parser = term)]
    expires: Duration,
}

fn name(text: &str) -> Result<String, String> {
    if is_token_name(text) {
        Ok(text.to_owned())
    } else {
        Err("use 1 to 100 characters without control characters".into())
    }
}

fn role(text: &str) -> Result<Role, String> {
    let found = text.parse().ok().filter(|role| ROLES.contains(role));
    found.ok_or_else(|| "use viewer, operator, admin, worker or requester".to_owned())
}

fn scope(text: &str) -> Result<String, String> {
    if is_scope(text) {
        Ok(text.to_owned())
    } else {
        Err("use an object such as pool/etl or pool/etl*".into())
    }
}

fn term(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text).map_err(|_| "use a duration such as 90d or 12h".to_owned())?;
    let (least, most) = (Duration::from_secs(60), Duration::from_secs(3650 * 86_400));
    if (least..=most).contains(&parsed) { Ok(parsed) } else { Err("use a duration from 1m to 3650d".into()) }
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: TokenCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        TokenCommand::Create(arguments) => create(arguments, context).await,
        TokenCommand::List => list(context).await,
        TokenCommand::Revoke { id } => revoke(&id, context).await,
    }
}

async fn create(arguments: Create, context: &Context) -> Result<Exit, Failure> {
    if arguments.scopes.len() > SCOPES_MAX {
        let what = format!("a token has at most {SCOPES_MAX} scopes");
        return Err(Failure::new(Code::Usage, what, "use fewer, or the beginning of several with a *"));
    }
    let failed = |error| Failure::unexpected("no random bytes could be had", &error);
    let token = SystemIds.token().map_err(failed)?;
    let new = NewToken {
        name: arguments.name,
        role: arguments.role,
        scopes: arguments.scopes,
        valid_for: Some(arguments.expires),
    };
    let mut tx = context.begin().await?;
    let record = tx.tokens().create(&token, &new, &context.actor()).await?;
    tx.commit().await?;
    let end = record.expires_at.map_or_else(|| "never".to_owned(), |end| end.to_string());
    context.note(&format!(
        "token {} for {} ({}), expires {end}; it is not shown again:",
        record.id, record.name, record.role
    ));
    write_stdout(format!("{}\n", token.expose()))
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let records = tx.tokens().list(1000).await?;
    let tokens: Vec<_> = records.iter().map(|record| (record, state(record, now))).collect();
    let empty = "No token was created yet: `tidemill token create NAME`.";
    context.list("tidemill.token/v1", empty, &tokens).columns(&[
        ("id", |(record, _)| json!(record.id)),
        ("name", |(record, _)| json!(record.name)),
        ("role", |(record, _)| json!(record.role.as_str())),
        ("scopes", |(record, _)| json!(record.scopes.join(","))),
        ("state", |(_, state)| json!(state)),
        ("created_at", |(record, _)| json!(record.created_at.to_string())),
        ("created_by", |(record, _)| json!(record.created_by)),
        ("expires_at", |(record, _)| json!(record.expires_at.map(|at| at.to_string()))),
        ("last_used_at", |(record, _)| json!(record.last_used_at.map(|at| at.to_string()))),
    ])
}

fn state(record: &TokenRecord, now: Timestamp) -> &'static str {
    match record {
        _ if record.is_valid(now) => "valid",
        TokenRecord { revoked_at: Some(_), .. } => "revoked",
        _ => "expired",
    }
}

async fn revoke(id: &str, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let revoked = tx.tokens().revoke(id, &context.actor()).await?;
    tx.commit().await?;
    if !revoked {
        let what = format!("there is no valid token {:?}", id.chars().take(20).collect::<String>());
        return Err(Failure::new(Code::NotFound, what, "see `tidemill token list`"));
    }
    context.note(&format!("token {id} is revoked; its sessions have ended"));
    Ok(Exit::Ok)
}
