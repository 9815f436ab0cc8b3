//! The settings of a pool, and their change: the page shows the effect before it asks for confirmation.

use super::address::{PoolPage, Range, Tab};
use crate::api::QueryString;
use crate::api::pool::{define, find, named, object, unknown};
use crate::dashboard::form::Fields;
use crate::dashboard::part::{command, given, plural, unless_refused};
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, reason_field};
use crate::dashboard::{PageContext, PageResult, PageSnapshot, Section, form};
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_api::pool::PoolSettings;
use tidemill_domain::access::Permission;
use tidemill_domain::action::Reason;
use tidemill_domain::duration;
use tidemill_domain::pool::{Ledger, Policy, PoolName, Settings, State as TicketState, Ticket};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolRecord;

pub(super) fn markup(visit: &PageContext, settings: &Settings) -> Markup {
    let refusal = visit.refusal_of(Permission::Operate, &object(&settings.name));
    let is_off = refusal.is_some();
    html! {
        form.body method="get" action=(visit.state.path(&format!("/pools/{}/change", settings.name))) {
            div.fields {
                label {
                    "Capacity (units)"
                    input name="max_units" type="number" min="0" max=(u32::MAX) required value=(settings.max_units) disabled[is_off];
                }
                label {
                    "Limit (% of the capacity)"
                    input name="threshold_percent" type="number" min="1" max="100" required
                        value=(settings.threshold_percent) disabled[is_off];
                }
                label {
                    "Policy"
                    select name="policy" disabled[is_off] {
                        @for policy in Policy::ALL {
                            option value=(policy) selected[policy == settings.policy] { (policy) }
                        }
                    }
                }
            }
            div.row {
                (unless_refused(refusal.as_deref(), "Change…", &html! { button { "Change…" } }))
                span.soft { "You see the effect before you confirm." }
            }
        }
        dl.body { (all(settings)) }
        p.body.soft {
            "At the command line: " (command(&format!("tidemill pool set {} --max UNITS", settings.name)))
        }
    }
}

fn all(settings: &Settings) -> Markup {
    html! {
        dt { "Database type" } dd { (settings.db_type) }
        dt { "Default units" } dd { (plural(settings.default_units.get(), "unit", "units")) }
        dt { "Minimum units" } dd { (plural(settings.min_units.get(), "unit", "units")) }
        dt { "Weight" } dd { (settings.weight) }
        dt { "Follows hints" } dd { @if settings.hint_effective { "yes" } @else { "no" } }
        dt { "Default degree" } dd { (settings.default_degree) }
        dt { "Parallel server sets" } dd { (settings.server_sets) }
        dt { "Capacity windows" }
        dd {
            @if settings.capacity.is_empty() { span.soft { "none" } }
            @for capacity in &settings.capacity {
                div { (plural(capacity.max_units, "unit", "units")) " at " (capacity.window) " (" (settings.zone) ")" }
            }
        }
        dt { "Heartbeat timeout" } dd { (duration::show(settings.lease_for)) }
        dt { "Maximum hold time" } dd { (duration::show(settings.max_hold)) }
        dt { "Claim timeout" } dd { (duration::show(settings.claim_for)) }
    }
}

/// A change of a pool. The fields after the policy come only with its confirmation.
#[derive(Debug, Deserialize)]
pub(crate) struct PoolChange {
    max_units: u32,
    threshold_percent: u8,
    policy: String,
    #[serde(default)]
    before: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    form_token: String,
    #[serde(default)]
    key: String,
}

impl PoolChange {
    fn apply(&self, settings: Settings) -> Result<Settings, Problem> {
        let change = PoolSettings {
            max_units: Some(self.max_units),
            threshold_percent: Some(self.threshold_percent),
            policy: Some(self.policy.clone()),
            ..PoolSettings::default()
        };
        Ok(change.apply(settings)?)
    }
}

/// Shows the effect of a change and asks for confirmation.
pub(crate) async fn ask(
    visit: PageContext,
    Path(name): Path<String>,
    QueryString(change): QueryString<PoolChange>,
) -> PageResult {
    question(&visit, &named(&name)?, &change, &html! {}).await
}

async fn question(visit: &PageContext, name: &PoolName, change: &PoolChange, above: &Markup) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let pool = find(&mut tx, name).await?;
    let ledger = tx.pools().ledger(name).await?.ok_or_else(|| unknown(name.as_str()))?;
    let after = change.apply(pool.settings.clone())?;
    let lines = consequences(&pool, &after, never_granted(&ledger, &after), common.now);
    let (title, heading) = (format!("Change {name}"), html! { h1 { (name) } });
    let sheet = sheet(visit, &pool, &lines, &after);
    let question = QuestionPage { section: Section::Pools, title, heading, sheet };
    Ok(question.render(visit, &common, above))
}

/// Number of waiting requests that the new limit can never serve.
fn never_granted(ledger: &Ledger, after: &Settings) -> usize {
    let least = |ticket: &Ticket| ticket.weight.units(after.policy.least(ticket.asked, ticket.least));
    let waiting = ledger.tickets().filter(|ticket| ticket.state == TicketState::Waiting);
    waiting.filter(|ticket| least(ticket) > after.greatest_limit()).count()
}

fn sheet(visit: &PageContext, pool: &PoolRecord, lines: &[String], after: &Settings) -> Sheet {
    let (before, name) = (&pool.settings, &after.name);
    let refusal = visit
        .refusal_of(Permission::Operate, &object(name))
        .or_else(|| (before == after).then(|| "The pool already has these settings.".to_owned()));
    let hidden = html! {
        (form::hidden(&visit.principal))
        @for (field, value) in [
            ("max_units", after.max_units.to_string()),
            ("threshold_percent", after.threshold_percent.to_string()),
            ("policy", after.policy.to_string()),
            ("before", fingerprint(before)),
        ] {
            input type="hidden" name=(field) value=(value);
        }
    };
    Sheet {
        question: format!("Change {name}?"),
        consequence: html! { @if before != after { ul { @for line in lines { li { (line) } } } } },
        form: SheetForm::Own { address: visit.state.path(&format!("/pools/{name}/change")), hidden },
        fields: reason_field(WHY, Reason::Required, None),
        back: visit.state.path(&PoolPage::new(name, Tab::Settings, Range::default()).path()),
        leave: "Back",
        button: if refusal.is_some() { "Change".to_owned() } else { format!("Change {name}") },
        ends: false,
        refusal,
        command: Some(format!(
            "tidemill pool set {name} --max {} --threshold {} --policy {} --reason WHY",
            after.max_units, after.threshold_percent, after.policy
        )),
    }
}

/// The settings in the question. A confirmation counts only while they are unchanged.
fn fingerprint(settings: &Settings) -> String {
    format!("{}/{}/{}", settings.max_units, settings.threshold_percent, settings.policy)
}

/// The effect of a change, as sentences.
fn consequences(pool: &PoolRecord, after: &Settings, never_granted: usize, now: Timestamp) -> Vec<String> {
    let (before, usage) = (&pool.settings, pool.usage);
    let (old, new) = (before.limit_at(now), after.limit_at(now));
    let mut lines = Vec::new();
    if before.max_units != after.max_units {
        lines.push(format!("Capacity {} → {} units.", before.max_units, after.max_units));
    }
    if before.threshold_percent != after.threshold_percent {
        let (old, new) = (before.threshold_percent, after.threshold_percent);
        lines.push(format!("Limit {old} % → {new} % of the capacity."));
    }
    if before.policy != after.policy {
        lines.push(format!("Policy {} → {}, from the next decision on.", before.policy, after.policy));
    }
    let limit = if old == new { format!("The limit stays {new}") } else { format!("Limit {old} → {new}") };
    lines.push(match usage {
        usage if usage >= new => {
            format!("{limit}: {usage} in use; nothing is killed; no grants until in use < {new}.")
        }
        usage if new > old && pool.waiting > 0 && before.paused.is_none() => {
            let requests = plural(pool.waiting, "waiting request", "waiting requests");
            format!("{limit}: {usage} in use; {requests} may start at once.")
        }
        usage => format!("{limit}: {usage} in use; nothing is killed."),
    });
    if never_granted > 0 {
        let requests = plural(never_granted as u64, "waiting request needs", "waiting requests need");
        lines.push(format!("{requests} more than the new limit and will leave the queue."));
    }
    lines
}

/// Changes a pool if its settings are still those in the question; otherwise asks again.
pub(crate) async fn change(
    visit: PageContext,
    Path(name): Path<String>,
    Fields(change): Fields<PoolChange>,
) -> Result<Response, Problem> {
    form::check(&visit.principal, &change.form_token)?;
    let name = named(&name)?;
    let reason = given(&change.reason);
    let PoolChange { max_units, threshold_percent, policy, before, .. } = &change;
    let what =
        format!("form: change pool {name} {max_units} {threshold_percent} {policy} from {before} {reason:?}");
    let mut is_stale = false;
    let done = visit
        .caller(&change.key)
        .run(&object(&name), &what, async |tx| {
            let after = |settings: Settings| {
                if fingerprint(&settings) != *before {
                    is_stale = true;
                    return Err(Problem::bad_request("the pool was changed in the meantime", "try again"));
                }
                change.apply(settings)
            };
            define::apply(tx, &name, &visit.principal.actor(), reason, after).await
        })
        .await;
    if is_stale {
        let above = html! {
            p.banner.bad role="alert" { "The pool was changed in the meantime. This is the effect now." }
        };
        let page = question(&visit, &name, &change, &above).await?;
        return Ok((StatusCode::CONFLICT, page).into_response());
    }
    done?;
    let at = PoolPage::new(&name, Tab::Settings, Range::default());
    Ok(Redirect::to(&visit.state.path(&at.path())).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(max_units: u32, usage: u64, waiting: u64) -> PoolRecord {
        let settings = Settings { threshold_percent: 100, ..Settings::new("p".parse().unwrap(), max_units) };
        let (created_at, changed_at) = (Timestamp::EPOCH, Timestamp::EPOCH);
        PoolRecord { settings, version: 1, usage, active: 1, waiting, suspect: 0, created_at, changed_at }
    }

    fn sentences(pool: &PoolRecord, change: impl Fn(&mut Settings)) -> String {
        let mut after = pool.settings.clone();
        change(&mut after);
        consequences(pool, &after, 0, Timestamp::EPOCH).join(" ")
    }

    #[test]
    fn less_than_is_in_use_takes_nothing_and_grants_nothing() {
        let sentences = sentences(&pool(40, 32, 3), |after| after.max_units = 20);
        assert_eq!(
            sentences,
            "Capacity 40 → 20 units. Limit 40 → 20: 32 in use; nothing is killed; no grants until in use < 20."
        );
    }

    #[test]
    fn more_lets_the_queue_go_on_and_the_rest_is_told_too() {
        assert!(
            sentences(&pool(40, 32, 3), |after| after.max_units = 80)
                .contains("3 waiting requests may start at once")
        );
        assert!(sentences(&pool(40, 0, 0), |after| after.threshold_percent = 50).contains("100 % → 50 %"));
        let policy = sentences(&pool(40, 2, 0), |after| after.policy = "fifo".parse().unwrap());
        assert!(policy.contains("halving → fifo") && policy.contains("The limit stays 40"), "{policy}");
    }
}
