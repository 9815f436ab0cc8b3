//! The routes of the dashboard.

use super::{Access, Route, Surface, route};
use crate::dashboard;
use axum::http::Method;
use axum::routing::{get, post};
use tidemill_domain::access::Permission;

/// The route of the program's extra action, which is in the table only where there is one.
pub(super) fn of_action() -> Route {
    route(
        Method::POST,
        dashboard::action::PATH,
        Access::Needs(Permission::Administer),
        Surface::Page,
        post(dashboard::action::perform),
    )
}

/// Its part of the table.
pub(super) fn routes() -> Vec<Route> {
    use Access::{Needs, Public};
    use Permission::{Administer, Operate, View};
    use Surface::{Api, Page};
    let (g, p) = (Method::GET, Method::POST);
    vec![
        route(g.clone(), "/", Needs(View), Page, get(dashboard::overview::page)),
        route(g.clone(), "/jobs", Needs(View), Page, get(dashboard::job::jobs)),
        route(g.clone(), "/jobs/{name}", Needs(View), Page, get(dashboard::job::job)),
        route(p.clone(), "/jobs/{name}/run", Needs(Operate), Page, post(dashboard::job::run::run)),
        route(g.clone(), "/executions", Needs(View), Page, get(dashboard::execution::all)),
        route(g.clone(), "/executions/{id}", Needs(View), Page, get(dashboard::execution::page)),
        route(
            g.clone(),
            "/executions/{id}/download",
            Needs(View),
            Page,
            get(dashboard::execution::download::file),
        ),
        route(
            p.clone(),
            "/executions/{id}/restart",
            Needs(Operate),
            Page,
            post(dashboard::execution::operate::restart),
        ),
        route(
            p.clone(),
            "/executions/{id}/stop",
            Needs(Operate),
            Page,
            post(dashboard::execution::operate::stop),
        ),
        route(
            p.clone(),
            "/executions/{id}/abandon",
            Needs(Operate),
            Page,
            post(dashboard::execution::operate::abandon),
        ),
        route(
            p.clone(),
            "/schedules/{name}/pause",
            Needs(Operate),
            Page,
            post(dashboard::job::schedule::pause),
        ),
        route(
            p.clone(),
            "/schedules/{name}/resume",
            Needs(Operate),
            Page,
            post(dashboard::job::schedule::resume),
        ),
        route(g.clone(), "/settings", Needs(View), Page, get(dashboard::settings::page)),
        route(p.clone(), "/settings/preferences", Public, Page, post(dashboard::preferences::save)),
        route(g.clone(), "/settings/tokens", Needs(Administer), Page, get(dashboard::token::page)),
        route(p.clone(), "/settings/tokens", Needs(Administer), Page, post(dashboard::token::create)),
        route(
            p.clone(),
            "/settings/tokens/{id}/revoke",
            Needs(Administer),
            Page,
            post(dashboard::token::revoke),
        ),
        route(g.clone(), "/settings/audit", Needs(View), Page, get(dashboard::audit::page)),
        route(
            g.clone(),
            "/settings/configuration",
            Needs(Administer),
            Page,
            get(dashboard::configuration::page),
        ),
        route(g.clone(), "/pools", Needs(View), Page, get(dashboard::pool::list::page)),
        route(g.clone(), "/pools/{name}", Needs(View), Page, get(dashboard::pool::page::page)),
        route(g.clone(), "/pools/{name}/change", Needs(View), Page, get(dashboard::pool::settings::ask)),
        route(
            p.clone(),
            "/pools/{name}/change",
            Needs(Operate),
            Page,
            post(dashboard::pool::settings::change),
        ),
        route(p.clone(), "/pools/{name}/pause", Needs(Operate), Page, post(dashboard::pool::order::pause)),
        route(p.clone(), "/pools/{name}/resume", Needs(Operate), Page, post(dashboard::pool::order::resume)),
        route(
            g.clone(),
            "/pools/{name}/tickets/{id}/release",
            Needs(View),
            Page,
            get(dashboard::pool::order::ask_release),
        ),
        route(
            p.clone(),
            "/pools/{name}/tickets/{id}/release",
            Needs(Operate),
            Page,
            post(dashboard::pool::order::release),
        ),
        route(g.clone(), "/outbox", Needs(View), Page, get(dashboard::outbox::page::page)),
        route(
            g.clone(),
            "/outbox/failed",
            Needs(View),
            Page,
            get(dashboard::outbox::failed_event::list::page),
        ),
        route(
            g.clone(),
            "/outbox/failed/replay",
            Needs(View),
            Page,
            get(dashboard::outbox::failed_event::many::ask_replay),
        ),
        route(
            p.clone(),
            "/outbox/failed/replay",
            Needs(Operate),
            Page,
            post(dashboard::outbox::failed_event::many::replay),
        ),
        route(
            g.clone(),
            "/outbox/failed/skip",
            Needs(View),
            Page,
            get(dashboard::outbox::failed_event::many::ask_skip),
        ),
        route(
            p.clone(),
            "/outbox/failed/skip",
            Needs(Operate),
            Page,
            post(dashboard::outbox::failed_event::many::skip),
        ),
        // What an event says is on it for those who may see payloads.
        route(
            g.clone(),
            "/outbox/failed/{id}",
            Needs(View),
            Page,
            get(dashboard::outbox::failed_event::one::page),
        ),
        route(
            g.clone(),
            "/outbox/failed/{id}/replay",
            Needs(View),
            Page,
            get(dashboard::outbox::failed_event::one::ask_replay),
        ),
        route(
            p.clone(),
            "/outbox/failed/{id}/replay",
            Needs(Operate),
            Page,
            post(dashboard::outbox::failed_event::one::replay),
        ),
        route(
            g.clone(),
            "/outbox/failed/{id}/skip",
            Needs(View),
            Page,
            get(dashboard::outbox::failed_event::one::ask_skip),
        ),
        route(
            p.clone(),
            "/outbox/failed/{id}/skip",
            Needs(Operate),
            Page,
            post(dashboard::outbox::failed_event::one::skip),
        ),
        route(g.clone(), "/alerts", Needs(View), Page, get(dashboard::alert::page)),
        route(p.clone(), "/alerts/silence", Needs(Operate), Page, post(dashboard::alert::silence)),
        route(p.clone(), "/alerts/unsilence", Needs(Operate), Page, post(dashboard::alert::unsilence)),
        route(g.clone(), "/render", Needs(View), Page, get(dashboard::render::page)),
        route(g.clone(), "/render/workers", Needs(View), Page, get(dashboard::render::worker::page)),
        route(
            g.clone(),
            "/render/profiles",
            Needs(View),
            Page,
            get(dashboard::render::composition::profiles),
        ),
        route(
            g.clone(),
            "/render/mappings",
            Needs(View),
            Page,
            get(dashboard::render::composition::mappings),
        ),
        route(g.clone(), "/render/{id}", Needs(View), Page, get(dashboard::render::one::page)),
        route(g.clone(), "/render/{id}/json", Needs(View), Page, get(dashboard::render::one::download)),
        route(g.clone(), "/render/{id}/poster", Needs(View), Page, get(dashboard::render::poster::file)),
        route(
            g.clone(),
            "/render/{id}/data",
            // It is the payload.
            Needs(Administer),
            Page,
            get(dashboard::render::one::data),
        ),
        route(
            g.clone(),
            "/render/{id}/cancel",
            Needs(Operate),
            Page,
            get(dashboard::render::order::ask_cancel),
        ),
        route(p.clone(), "/render/{id}/cancel", Needs(Operate), Page, post(dashboard::render::order::cancel)),
        route(
            g.clone(),
            "/render/{id}/retry",
            Needs(Operate),
            Page,
            get(dashboard::render::order::ask_retry),
        ),
        route(p.clone(), "/render/{id}/retry", Needs(Operate), Page, post(dashboard::render::order::retry)),
        route(
            g.clone(),
            "/render/{id}/recover",
            Needs(Operate),
            Page,
            get(dashboard::render::order::ask_recover),
        ),
        route(
            p.clone(),
            "/render/{id}/recover",
            Needs(Operate),
            Page,
            post(dashboard::render::order::recover),
        ),
        route(g.clone(), "/ui/events", Needs(View), Api, get(crate::live::events)),
        route(g.clone(), "/login", Public, Page, get(dashboard::login::page)),
        route(p.clone(), "/login", Public, Page, post(dashboard::login::open)),
        route(p, "/logout", Public, Page, post(dashboard::login::close)),
        route(g.clone(), "/assets/{name}", Public, Page, get(dashboard::asset::file)),
    ]
}
