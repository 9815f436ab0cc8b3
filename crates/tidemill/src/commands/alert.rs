//! `tidemill alert`: alerts, rules and silences.

use crate::commands::prelude::*;
use crate::config::alert::RuleSettings;
use crate::output::Column;
use std::time::Duration;
use tidemill_api::alert::{Alert, Silence as SilenceView};
use tidemill_domain::alert::Subject;
use tidemill_domain::alert::silence::{SilenceRequest, check_rule};
use tidemill_domain::duration;

#[derive(Subcommand, Debug)]
pub(crate) enum AlertCommand {
    /// List alerts, firing ones first
    List {
        /// Maximum number of alerts
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// List the configured rules
    Rules,
    /// Stop notifications about a rule for a while; its alerts stay in the list
    Silence(Silence),
    /// End a silence early
    Unsilence {
        /// Name of the rule
        rule: String,
        /// Subject of the silence, if it has one
        #[arg(long, value_parser = Subject::new)]
        subject: Option<Subject>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Silence {
    /// Name of the rule
    rule: String,
    /// Only this subject of the rule, as `alert list` shows it
    #[arg(long, value_parser = Subject::new)]
    subject: Option<Subject>,
    /// Duration, such as 30m, 1h or 2d
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    length: Duration,
    /// Reason, kept in the audit log
    #[arg(long)]
    reason: String,
}

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: AlertCommand, context: &Context) -> Result<Exit> {
    match arguments {
        AlertCommand::List { limit } => list(limit, context).await,
        AlertCommand::Rules => rules(context),
        AlertCommand::Silence(arguments) => silence(arguments, context).await,
        AlertCommand::Unsilence { rule, subject } => unsilence(&rule, subject.as_ref(), context).await,
    }
}

async fn list(limit: u32, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let alerts = tx.alerts().list(limit + 1).await?;
    let columns = "rule subject state severity? value since silenced_until? detail? updated_at??";
    let (schema, empty) = ("tidemill.alert_state/v1", "No alerts yet.");
    context.print_page::<Alert, _>(schema, empty, &alerts, columns, limit, "")
}

fn rules(context: &Context) -> Result<Exit> {
    let columns: &[Column<RuleSettings>] = &[
        ("rule", |settings| json!(settings.rule.name())),
        ("signal", |settings| json!(settings.rule.signal())),
        ("condition", |settings| json!(settings.rule.condition().to_string())),
        ("aggregate", |settings| json!(settings.rule.aggregate().as_str())),
        ("window", |settings| json!(duration::show(settings.rule.window()))),
        ("for", |settings| json!(duration::show(settings.rule.hold()))),
        ("severity", |settings| json!(settings.rule.severity().as_str())),
        ("channels", |settings| json!(settings.rule.channels().join(", "))),
        ("enabled", |settings| json!(settings.is_enabled)),
    ];
    let rules = &context.settings().alert.rules;
    Listing::of("tidemill.alert_rule/v1", "No rules.", rules, columns).print(context.output())
}

async fn silence(arguments: Silence, context: &Context) -> Result<Exit> {
    let known = context.settings().alert.rules.iter().map(|settings| settings.rule.name());
    let Silence { rule, subject, length, reason } = arguments;
    check_rule(&rule, known)?;
    let request = SilenceRequest { rule, subject, length, reason, actor: context.actor() };
    // Check before opening the database.
    request
        .check()
        .map_err(|bad| Failure::new(Code::Usage, bad.to_string(), "see `tidemill alert silence --help`"))?;
    let mut tx = context.begin().await?;
    let silence = tx.alerts().silence(&request).await?;
    tx.commit().await?;
    let silence =
        silence.map_err(|bad| Failure::new(Code::Usage, bad.to_string(), "correct the arguments"))?;
    let columns = "rule subject until reason by";
    context.print_list::<SilenceView, _>("tidemill.alert_silence/v1", "", [&silence], columns)
}

async fn unsilence(rule: &str, subject: Option<&Subject>, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let ended = tx.alerts().unsilence(rule, subject, &context.actor()).await?;
    tx.commit().await?;
    let rule = rule.chars().take(63).collect::<String>();
    let about = match subject {
        Some(subject) => format!("{rule:?} and subject {:?}", subject.as_str()),
        None => format!("{rule:?}"),
    };
    if !ended {
        let fix =
            "see SILENCED UNTIL in `tidemill alert list`; use --subject to end the silence of one subject";
        let what = format!("there is no silence of the rule {about}");
        return Err(Failure::new(Code::NotSilenced, what, fix));
    }
    context.done(&format!("The silence of the rule {about} has ended."))
}
