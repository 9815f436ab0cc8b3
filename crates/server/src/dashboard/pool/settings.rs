//! The settings of a pool, and their change: the page shows the effect before it asks for confirmation.

use super::address::{PoolPage, Range, Tab};
use super::field::{self, CHANGEABLE, inputs};
use crate::api::QueryString;
use crate::api::pool::{define, find, named, object, unknown};
use crate::dashboard::form::{self, Fields, Pairs, RefusedForm};
use crate::dashboard::part::{command, plain_panel, plural, unless_refused};
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, reason_field};
use crate::dashboard::{Frame, PageContext, PageSnapshot, Section};
use crate::operate::checked;
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use tidemill_api::pool::without_grants;
use tidemill_domain::access::Permission;
use tidemill_domain::action::Reason;
use tidemill_domain::duration;
use tidemill_domain::pool::{Ledger, PoolName, Settings, State as TicketState, Ticket};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolRecord;

pub(super) fn markup(visit: &PageContext, settings: &Settings) -> Markup {
    html! {
        (change_form(visit, settings, None))
        dl.body { (others(settings)) }
        p.body.soft {
            "At the command line: " (command(&format!("tidemill pool set {} --max UNITS", settings.name)))
        }
    }
}

fn change_form(visit: &PageContext, settings: &Settings, refused: Option<&RefusedForm>) -> Markup {
    let refusal = visit.refusal_of(Permission::Operate, &object(&settings.name));
    html! {
        form.body method="get" action=(visit.state.path(&format!("/pools/{}/change", settings.name))) {
            (inputs(CHANGEABLE, refused, refusal.is_some(), |field| (field.value)(settings)))
            div.row {
                (unless_refused(refusal.as_deref(), "Change…", &html! { button { "Change…" } }))
                span.soft { "You see the effect before you confirm." }
            }
        }
    }
}

/// The settings that have no field.
fn others(settings: &Settings) -> Markup {
    html! {
        dt { "Database type" } dd { (settings.db_type) }
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
        dt { "Claim timeout" } dd { (duration::show(settings.claim_for)) }
    }
}

fn apply(fields: &[(String, String)], settings: Settings) -> Result<Settings, Problem> {
    Ok(field::settings(fields)?.apply(settings)?)
}

/// Shows the effect of a change and asks for confirmation.
pub(crate) async fn ask(
    visit: PageContext,
    Path(name): Path<String>,
    QueryString(fields): QueryString<Pairs>,
) -> Result<Response, Problem> {
    question(&visit, &named(&name)?, fields, &html! {}).await
}

/// The question, or the form again if a field is wrong.
async fn question(
    visit: &PageContext,
    name: &PoolName,
    fields: Pairs,
    above: &Markup,
) -> Result<Response, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let pool = find(&mut tx, name).await?;
    let ledger = tx.pools().ledger(name).await?.ok_or_else(|| unknown(name.as_str()))?;
    let (title, heading) = (format!("Change {name}"), html! { h1 { (name) } });
    let after = match apply(&fields, pool.settings.clone()) {
        Ok(after) => after,
        Err(problem) => {
            let (status, refused) = (problem.status(), RefusedForm { fields, problem });
            let form = change_form(visit, &pool.settings, Some(&refused));
            let content = html! { (heading) (plain_panel("change", "Settings", &form)) };
            let page = Frame::new(visit, &common, Section::Pools).titled(&title).render(&content);
            return Ok((status, page).into_response());
        }
    };
    let lines = consequences(&pool, &after, never_granted(&ledger, &after), common.now);
    let sheet = sheet(visit, &pool, &lines, &after);
    let question = QuestionPage { section: Section::Pools, title, heading, sheet };
    Ok(question.render(visit, &common, above).into_response())
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
        @for field in CHANGEABLE { input type="hidden" name=(field.name) value=((field.value)(after)); }
        input type="hidden" name="before" value=(fingerprint(before));
    };
    let changed = CHANGEABLE.iter().filter(|field| (field.value)(before) != (field.value)(after));
    let flags: String = changed.map(|field| format!(" {} {}", field.flag, (field.value)(after))).collect();
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
        command: Some(format!("tidemill pool set {name}{flags} --reason WHY")),
    }
}

/// The settings in the question. A confirmation counts only while they are unchanged.
fn fingerprint(settings: &Settings) -> String {
    CHANGEABLE.iter().map(|field| (field.value)(settings)).collect::<Vec<_>>().join("/")
}

/// The effect of a change, as sentences.
fn consequences(pool: &PoolRecord, after: &Settings, never_granted: usize, now: Timestamp) -> Vec<String> {
    let (before, usage) = (&pool.settings, pool.usage);
    let (old, new) = (before.limit_at(now), after.limit_at(now));
    let mut lines: Vec<String> = CHANGEABLE.iter().filter_map(|field| field.effect(before, after)).collect();
    let limit = if old == new { format!("The limit stays {new}") } else { format!("Limit {old} → {new}") };
    lines.push(match without_grants(usage, new) {
        Some(text) => format!("{limit}: {text}."),
        None if new > old && pool.waiting > 0 && before.paused.is_none() => {
            let requests = plural(pool.waiting, "waiting request", "waiting requests");
            format!("{limit}: {usage} in use; {requests} may start at once.")
        }
        None => format!("{limit}: {usage} in use; nothing is killed."),
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
    Fields(fields): Fields<Pairs>,
) -> Result<Response, Problem> {
    form::check(&visit.principal, form::field(&fields, "form_token"))?;
    let name = named(&name)?;
    let (reason, before) = (checked(form::field(&fields, "reason"))?, form::field(&fields, "before"));
    let what = format!("form: change pool {name} {:?}", form::typed(&fields));
    let mut is_stale = false;
    let done = visit
        .caller(form::field(&fields, "key"))
        .run(&object(&name), &what, async |tx| {
            let after = |settings: Settings| {
                if fingerprint(&settings) != before {
                    is_stale = true;
                    return Err(Problem::bad_request("the pool was changed in the meantime", "try again"));
                }
                apply(&fields, settings)
            };
            define::apply(tx, &name, &visit.principal.actor(), Some(reason), after).await
        })
        .await;
    if is_stale {
        let above = html! {
            p.banner.bad role="alert" { "The pool was changed in the meantime. This is the effect now." }
        };
        let page = question(&visit, &name, fields, &above).await?;
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
        PoolRecord { usage, active: 1, waiting, ..PoolRecord::unused(settings) }
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
            "Capacity 40 → 20 units. Limit 40 → 20: 32 in use; nothing is killed; no grants until fewer than 20 units are in use."
        );
        let closed = self::sentences(&pool(40, 0, 0), |after| after.max_units = 0);
        assert!(
            closed.ends_with("Limit 40 → 0: 0 in use; nothing is killed; no grants while the limit is 0."),
            "{closed}"
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
        assert!(policy.contains("adaptive → fifo") && policy.contains("The limit stays 40"), "{policy}");
    }
}
