//! `tidemill alert`: what is wrong, what is watched, and keeping quiet about it for a while.

use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::{Args, Subcommand};
use serde_json::json;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::alert::silence::SilenceRequest;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::duration;

/// What is wrong, and who is told
#[derive(Subcommand, Debug)]
pub(crate) enum AlertCommand {
    /// The alerts, the firing first
    List {
        /// At most so many alerts
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// What is watched, by the configuration in force
    Rules,
    /// Tell nobody about a rule for a while; its alerts go on
    Silence(Silence),
    /// End a silence before its time
    Unsilence(Unsilence),
}

#[derive(Args, Debug)]
pub(crate) struct Silence {
    /// The rule
    rule: String,
    /// Only this subject of the rule, as `alert list` shows it
    #[arg(long, value_parser = Subject::new)]
    subject: Option<Subject>,
    /// For how long, such as 30m, 1h or 2d
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    length: Duration,
    /// Why, for those who wonder later
    #[arg(long)]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct Unsilence {
    /// The rule
    rule: String,
    /// The subject, if the silence was for one
    #[arg(long, value_parser = Subject::new)]
    subject: Option<Subject>,
}

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: AlertCommand, context: &Context) -> Result<Exit, Failure> {
    match arguments {
        AlertCommand::List { limit } => list(limit, context).await,
        AlertCommand::Rules => rules(context),
        AlertCommand::Silence(arguments) => silence(arguments, context).await,
        AlertCommand::Unsilence(arguments) => unsilence(&arguments, context).await,
    }
}

async fn list(limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let alerts = tx.alerts().list(limit).await?;
    context.list("tidemill.alert_state/v1", "No rule has been breached yet.", &alerts).columns(&[
        ("rule", |alert| json!(alert.rule)),
        ("subject", |alert| json!(alert.subject.as_str())),
        ("state", |alert| json!(alert.state.as_str())),
        ("severity", |alert| json!(alert.severity.as_str())),
        ("value", |alert| json!(alert.value)),
        ("since", |alert| json!(alert.state.since().map(|since| since.to_string()))),
        ("silenced_until", |alert| json!(alert.silence.as_ref().map(|silence| silence.until.to_string()))),
        ("updated_at", |alert| json!(alert.updated_at.to_string())),
    ])
}

fn rules(context: &Context) -> Result<Exit, Failure> {
    context.list("tidemill.alert_rule/v1", "There are no rules.", &context.settings().alert.rules).columns(&[
        ("rule", |settings| json!(settings.rule.name())),
        ("signal", |settings| json!(settings.rule.signal())),
        ("condition", |settings| json!(settings.rule.condition().to_string())),
        ("aggregate", |settings| json!(settings.rule.aggregate().as_str())),
        ("window", |settings| json!(duration::show(settings.rule.window()))),
        ("for", |settings| json!(duration::show(settings.rule.hold()))),
        ("severity", |settings| json!(settings.rule.severity().as_str())),
        ("channels", |settings| json!(settings.rule.channels().join(", "))),
        ("enabled", |settings| json!(settings.is_enabled)),
    ])
}

async fn silence(arguments: Silence, context: &Context) -> Result<Exit, Failure> {
    let known = context.settings().alert.rules.iter().map(|settings| settings.rule.name());
    if !known.clone().any(|name| name == arguments.rule) {
        let known = known.collect::<Vec<_>>().join(", ");
        let what =
            format!("there is no alert rule {:?}", arguments.rule.chars().take(63).collect::<String>());
        let fix = "name one of them; `tidemill alert rules` tells more";
        return Err(
            Failure::new(Code::UnknownAlertRule, what, fix).because(&format!("the rules are {known}"))
        );
    }
    let request = SilenceRequest {
        rule: arguments.rule,
        subject: arguments.subject,
        length: arguments.length,
        reason: arguments.reason,
        actor: context.actor(),
    };
    // Refused before the database is touched, so that a slip costs nothing.
    request
        .check()
        .map_err(|bad| Failure::new(Code::Usage, bad.to_string(), "see `tidemill alert silence --help`"))?;
    let mut tx = context.begin().await?;
    let silence = tx.alerts().silence(&request).await?;
    tx.commit().await?;
    let silence =
        silence.map_err(|bad| Failure::new(Code::Usage, bad.to_string(), "correct the arguments"))?;
    let listing = Listing::one("tidemill.alert_silence/v1").with([
        ("rule", json!(silence.rule)),
        ("subject", json!(silence.subject.as_ref().map(Subject::as_str))),
        ("until", json!(silence.until.to_string())),
        ("reason", json!(silence.reason)),
        ("by", json!(silence.by)),
    ]);
    listing.print(context.output())
}

async fn unsilence(arguments: &Unsilence, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let ended = tx.alerts().unsilence(&arguments.rule, arguments.subject.as_ref(), &context.actor()).await?;
    tx.commit().await?;
    let rule = arguments.rule.chars().take(63).collect::<String>();
    let about = match &arguments.subject {
        Some(subject) => format!("{rule:?} and subject {:?}", subject.as_str()),
        None => format!("{rule:?}"),
    };
    if !ended {
        let fix =
            "see SILENCED UNTIL in `tidemill alert list`; a silence of one subject is ended with --subject";
        let what = format!("no silence for exactly the rule {about} is in force");
        return Err(Failure::new(Code::NotSilenced, what, fix));
    }
    context.note(&format!("The silence for the rule {about} is over."));
    Ok(Exit::Ok)
}
