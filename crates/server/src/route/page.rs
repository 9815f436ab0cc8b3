//! The routes of the dashboard.

use super::{ADMINISTER, Access, OPERATE, Route, Surface, VIEW, get, post};
use crate::api::execution::log;
use crate::dashboard::{self, action, operate};
use crate::live;
use crate::state::State;
use axum::handler::Handler;
use axum::http::Method;
use tidemill_domain::action::Action;

/// The route of the extra action of the program, if it has one.
pub fn action_route() -> Route {
    form(action::PATH, ADMINISTER, action::perform)
}

pub(super) fn routes() -> Vec<Route> {
    others().into_iter().chain(Action::ALL.into_iter().flat_map(of)).collect()
}

/// The form of an action and the question page before it, if the dashboard has them.
fn of(action: Action) -> impl Iterator<Item = Route> {
    let declared = action.declaration();
    let question = operate::asks(action).zip(declared.page).map(|(permission, path)| {
        Route::new(Method::GET, path, Access::Needs(permission), operate::question(action))
    });
    let form = declared.page.map(|path| {
        let access = Access::Needs(declared.permission);
        Route::new(Method::POST, path, access, operate::handler(action))
    });
    question.into_iter().chain(form).map(|route| route.on(Surface::Page))
}

fn page<T: 'static>(path: &'static str, access: Access, handler: impl Handler<T, State>) -> Route {
    get(path, access, handler).on(Surface::Page)
}

fn form<T: 'static>(path: &'static str, access: Access, handler: impl Handler<T, State>) -> Route {
    post(path, access, handler).on(Surface::Page)
}

fn others() -> Vec<Route> {
    use Access::Public;
    use dashboard::outbox::failed_event;
    use dashboard::{
        alert, asset, audit, execution, job, login, outbox, overview, pool, preferences, render, settings,
        token,
    };
    vec![
        page("/", VIEW, overview::page),
        page("/jobs", VIEW, job::jobs),
        page("/jobs/{name}", VIEW, job::job),
        form("/jobs/{name}/run", OPERATE, job::run::run),
        page("/executions", VIEW, execution::all),
        page("/executions/{id}", VIEW, execution::page),
        page("/executions/{id}/download", VIEW, execution::download),
        page("/executions/{id}/logs", VIEW, log::download),
        page("/settings", VIEW, settings::page),
        form("/settings/preferences", Public, preferences::save),
        page("/settings/tokens", ADMINISTER, token::page),
        form("/settings/tokens", ADMINISTER, token::create),
        page("/settings/audit", VIEW, audit::page),
        page("/settings/configuration", ADMINISTER, settings::configuration),
        page("/pools", VIEW, pool::list::page),
        form("/pools", ADMINISTER, pool::create::create),
        page("/pools/{name}", VIEW, pool::page::page),
        page("/pools/{name}/change", VIEW, pool::settings::ask),
        page("/pools/{name}/replay", VIEW, pool::replay::page),
        form("/pools/{name}/change", OPERATE, pool::settings::change),
        page("/outbox", VIEW, outbox::page::page),
        page("/outbox/failed", VIEW, failed_event::list::page),
        // Shows the payload only to visitors with `administer`.
        page("/outbox/failed/{id}", VIEW, failed_event::one::page),
        page("/alerts", VIEW, alert::page),
        page("/render", VIEW, render::page),
        page("/render/workers", VIEW, render::worker::page),
        page("/render/profiles", VIEW, render::composition::profiles),
        page("/render/mappings", VIEW, render::composition::mappings),
        page("/render/new", VIEW, render::order_form::page),
        form("/render/new", OPERATE, render::order_form::perform),
        page("/render/batch", VIEW, render::batch_form::page),
        form("/render/batch", OPERATE, render::batch_form::perform),
        page("/render/batches/{id}", VIEW, render::batch::page),
        page("/render/{id}", VIEW, render::one::page),
        page("/render/{id}/json", VIEW, render::one::download),
        page("/render/{id}/poster", VIEW, render::poster::file),
        page("/render/{id}/clip", VIEW, render::clip::file),
        // It is the payload.
        page("/render/{id}/data", ADMINISTER, render::one::data),
        get("/ui/events", VIEW, live::events),
        page("/login", Public, login::page),
        form("/login", Public, login::open),
        form("/logout", Public, login::close),
        page("/assets/{name}", Public, asset::file),
    ]
}
