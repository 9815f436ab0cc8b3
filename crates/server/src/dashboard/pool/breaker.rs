//! The circuit breaker on the page of a pool, and the question before it is opened or closed.

use super::address::{PoolPage, Range, Tab};
use super::list::RowContext;
use crate::api::pool::{find, named, object};
use crate::dashboard::part::plural;
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, ask_button, reason_field};
use crate::dashboard::{PageContext, Section, form};
use crate::problem::Problem;
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::pool::breaker::Phase;
use tidemill_domain::pool::event_summary::of_breaker;
use tidemill_domain::pool::{Breaker, PoolName};
use tidemill_domain::time::Timestamp;
use tidemill_store::Tx;

/// The actions to offer.
fn possible(breaker: &Breaker) -> &'static [Action] {
    match breaker.phase {
        Phase::Closed => &[Action::BreakerOpen],
        Phase::Open { until: None } => &[Action::BreakerClose],
        _ => &[Action::BreakerClose, Action::BreakerOpen],
    }
}

/// The state, and since when, for the list of facts.
pub(super) fn fact(context: &RowContext<'_>, breaker: &Breaker) -> Markup {
    html! {
        dt { "Breaker" }
        dd {
            (breaker.phase.as_str())
            @if *breaker != Breaker::default() {
                " since " (context.times.at(breaker.since))
                @if let Phase::Open { until: Some(until) } = breaker.phase { " until " (context.times.at(until)) }
                ": " (of_breaker(breaker))
            }
        }
    }
}

pub(super) fn buttons(context: &RowContext<'_>, name: &PoolName, breaker: &Breaker) -> Markup {
    html! {
        @for action in possible(breaker) {
            (ask_button(context.buttons, &address(context.state, name, *action),
                &format!("{} breaker…", action.label()), &format!("{} the breaker of {name}…", action.label())))
        }
    }
}

fn address(state: &State, name: &PoolName, action: Action) -> String {
    state.path(&format!("/pools/{name}/breaker/{}", action.verb()))
}

pub(crate) async fn question(
    action: Action,
    visit: &PageContext,
    tx: &mut Tx,
    name: &str,
    now: Timestamp,
) -> Result<QuestionPage, Problem> {
    let name = named(name)?;
    let pool = find(tx, &name).await?;
    let breaker = pool.breaker.seen(pool.settings.limit_at(now), now);
    let is_possible = possible(&breaker).contains(&action);
    let refusal = visit
        .refusal_of(Permission::Operate, &object(&name))
        .or_else(|| (!is_possible).then(|| format!("The breaker is {}.", breaker.phase.as_str())));
    let waiting = plural(pool.waiting, "request waits", "requests wait");
    let consequence = match action {
        Action::BreakerOpen => {
            format!("No request starts until somebody closes it; {waiting}. Holders keep their units.")
        }
        _ => format!(
            "The whole limit applies at once; {waiting}. If the database still refuses, it opens again."
        ),
    };
    let back = visit.state.path(&PoolPage::new(&name, Tab::Holders, Range::default()).path());
    let word = format!("{} breaker", action.label());
    let hidden = form::hidden_with_back(&visit.principal, &back);
    let sheet = Sheet {
        question: format!("{} the breaker of “{name}”?", action.label()),
        consequence: html! { @if refusal.is_none() { p { (consequence) } } },
        form: SheetForm::Own { address: address(&visit.state, &name, action), hidden },
        fields: reason_field(WHY, Reason::Required, None),
        back,
        leave: "Back",
        button: word.clone(),
        ends: false,
        refusal,
        command: Some(action.command_for(&name)),
    };
    let (title, heading) = (format!("{word} – {name}"), html! { h1 { (name) } });
    Ok(QuestionPage { section: Section::Pools, title, heading, sheet })
}
