//! Every route with what it needs. A route that is not in this table does not exist, and one cannot be added
//! without saying who may use it: that is the whole point of it.

mod page;

use crate::state::State;
use crate::{api, health, lambda};
use axum::Router;
use axum::http::Method;
use axum::routing::{MethodRouter, delete, get, patch, post};
use tidemill_domain::access::Permission;

/// Who may use a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Everybody: nothing is told here that is worth protecting.
    Public,
    Needs(Permission),
}

/// What kind of answer a route gives, which decides how a refusal looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surface {
    /// For programs: a problem object.
    Api,
    /// For people: a page, or the way to the login.
    Page,
    /// For clients of the document: a problem object. They may sign their requests.
    Document,
    /// For clients of AWS Lambda: an error of the service in its words. They may sign their requests.
    Lambda,
}

pub struct Route {
    pub method: Method,
    /// Path as the router matches it.
    pub path: &'static str,
    pub access: Access,
    /// What kind of answer it gives.
    pub surface: Surface,
    handler: MethodRouter<State>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?} {:?}", self.method, self.path, self.access, self.surface)
    }
}

fn route(
    method: Method,
    path: &'static str,
    access: Access,
    surface: Surface,
    handler: MethodRouter<State>,
) -> Route {
    Route { method, path, access, surface, handler }
}

const REQUESTS: &str = "/api/v1/requests";

/// Whether requests of this surface to this path may wait for units. `path` is one of the table, perhaps below a base
/// path.
pub(crate) fn waits(surface: Surface, path: &str) -> bool {
    match surface {
        Surface::Document | Surface::Lambda => true,
        Surface::Api => path.ends_with(REQUESTS),
        Surface::Page => false,
    }
}

/// Whether an answer goes on for as long as somebody listens. `path` is one of the table, perhaps below a base path: a pool
/// that is called `ui` has events too.
pub(crate) fn streams(path: &str) -> bool {
    path.ends_with("/ui/events")
}

pub fn routes() -> Vec<Route> {
    use Access::{Needs, Public};
    use Permission::{Administer, Operate, Request, View};
    use Surface::{Api, Document, Lambda};
    let (g, p, d) = (Method::GET, Method::POST, Method::DELETE);
    let mut routes = vec![
        route(g.clone(), "/healthz/live", Public, Api, get(health::live)),
        route(g.clone(), "/healthz/ready", Public, Api, get(health::ready)),
        route(g.clone(), "/healthz/startup", Public, Api, get(health::startup)),
        route(g.clone(), "/health", Public, Api, get(health::worker)),
        route(g.clone(), "/metrics", Needs(View), Api, get(health::metrics)),
        route(g.clone(), "/openapi.json", Public, Api, get(api::openapi)),
        route(g.clone(), "/api/v1/processes", Needs(View), Api, get(api::process::list)),
        route(g.clone(), "/api/v1/leases", Needs(View), Api, get(api::lease::list)),
        route(g.clone(), "/api/v1/audit", Needs(View), Api, get(api::audit::list)),
        route(g.clone(), "/api/v1/alerts", Needs(View), Api, get(api::alert::list)),
        route(p.clone(), "/api/v1/alerts/silences", Needs(Operate), Api, post(api::alert::silence)),
        route(d.clone(), "/api/v1/alerts/silences", Needs(Operate), Api, delete(api::alert::unsilence)),
        route(g.clone(), "/api/v1/jobs", Needs(View), Api, get(api::job::list)),
        route(g.clone(), "/api/v1/jobs/{name}", Needs(View), Api, get(api::job::show)),
        route(g.clone(), "/api/v1/jobs/{name}/instances", Needs(View), Api, get(api::job::instances)),
        route(
            p.clone(),
            "/api/v1/jobs/{name}/executions",
            Needs(Operate),
            Api,
            post(api::job::launch::launch),
        ),
        route(g.clone(), "/api/v1/executions", Needs(View), Api, get(api::execution::list)),
        route(g.clone(), "/api/v1/executions/{id}", Needs(View), Api, get(api::execution::show)),
        route(g.clone(), "/api/v1/executions/{id}/steps", Needs(View), Api, get(api::execution::steps)),
        route(
            g.clone(),
            "/api/v1/executions/{id}/context",
            Needs(View),
            Api,
            get(api::execution::content::job_context),
        ),
        route(
            g.clone(),
            "/api/v1/executions/{id}/steps/{step}/context",
            Needs(View),
            Api,
            get(api::execution::content::step_context),
        ),
        route(
            g.clone(),
            "/api/v1/executions/{id}/steps/{step}/rejects",
            // Rejects are payloads.
            Needs(Administer),
            Api,
            get(api::execution::content::rejects),
        ),
        route(
            p.clone(),
            "/api/v1/executions/{id}/stop",
            Needs(Operate),
            Api,
            post(api::execution::operate::stop),
        ),
        route(
            p.clone(),
            "/api/v1/executions/{id}/restart",
            Needs(Operate),
            Api,
            post(api::execution::operate::restart),
        ),
        route(
            p.clone(),
            "/api/v1/executions/{id}/abandon",
            Needs(Operate),
            Api,
            post(api::execution::operate::abandon),
        ),
        route(
            p.clone(),
            "/api/v1/executions/{id}/recover",
            Needs(Operate),
            Api,
            post(api::execution::operate::recover),
        ),
        route(g.clone(), "/api/v1/schedules", Needs(View), Api, get(api::schedule::list)),
        route(g.clone(), "/api/v1/schedules/{name}", Needs(View), Api, get(api::schedule::show)),
        route(g.clone(), "/api/v1/schedules/{name}/ticks", Needs(View), Api, get(api::schedule::ticks)),
        route(p.clone(), "/api/v1/schedules/{name}/pause", Needs(Operate), Api, post(api::schedule::pause)),
        route(p.clone(), "/api/v1/schedules/{name}/resume", Needs(Operate), Api, post(api::schedule::resume)),
        route(g.clone(), "/api/v1/tokens", Needs(Administer), Api, get(api::token::list)),
        route(p.clone(), "/api/v1/tokens", Needs(Administer), Api, post(api::token::create)),
        route(d.clone(), "/api/v1/tokens/{id}", Needs(Administer), Api, delete(api::token::revoke)),
        route(g.clone(), "/api/v1/outbox/stats", Needs(View), Api, get(api::outbox::stats::show)),
        route(g.clone(), "/api/v1/pools", Needs(View), Api, get(api::pool::list)),
        route(p.clone(), "/api/v1/pools", Needs(Administer), Api, post(api::pool::define::create)),
        route(g.clone(), "/api/v1/pools/{name}", Needs(View), Api, get(api::pool::show)),
        route(Method::PATCH, "/api/v1/pools/{name}", Needs(Operate), Api, patch(api::pool::define::change)),
        route(d.clone(), "/api/v1/pools/{name}", Needs(Administer), Api, delete(api::pool::define::remove)),
        route(p.clone(), "/api/v1/pools/{name}/pause", Needs(Operate), Api, post(api::pool::define::pause)),
        route(p.clone(), "/api/v1/pools/{name}/resume", Needs(Operate), Api, post(api::pool::define::resume)),
        route(g.clone(), "/api/v1/pools/{name}/holders", Needs(View), Api, get(api::pool::ticket::holders)),
        route(g.clone(), "/api/v1/pools/{name}/queue", Needs(View), Api, get(api::pool::ticket::queue)),
        route(g.clone(), "/api/v1/pools/{name}/events", Needs(View), Api, get(api::pool::event::list)),
        route(p.clone(), REQUESTS, Needs(Request), Api, post(api::pool::request::make)),
        route(g.clone(), "/api/v1/requests/{id}", Needs(Request), Api, get(api::pool::request::show)),
        route(d.clone(), "/api/v1/requests/{id}", Needs(Request), Api, delete(api::pool::request::cancel)),
        route(g.clone(), "/api/v1/pool-leases/{id}", Needs(View), Api, get(api::pool::lease::show)),
        route(
            d.clone(),
            "/api/v1/pool-leases/{id}",
            Needs(Request),
            Api,
            delete(api::pool::lease::give_back),
        ),
        route(
            p.clone(),
            "/api/v1/pool-leases/{id}/heartbeat",
            Needs(Request),
            Api,
            post(api::pool::lease::heartbeat),
        ),
        route(
            p.clone(),
            "/api/v1/pool-leases/{id}/release",
            Needs(Operate),
            Api,
            post(api::pool::lease::release),
        ),
        route(g.clone(), "/api/v1/outbox/failed", Needs(View), Api, get(api::outbox::failed_event::list)),
        route(
            g.clone(),
            "/api/v1/outbox/failed/{id}",
            // It has the payload.
            Needs(Administer),
            Api,
            get(api::outbox::failed_event::show),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/failed/skip",
            Needs(Operate),
            Api,
            post(api::outbox::failed_event::bulk::skip),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/failed/replay",
            Needs(Operate),
            Api,
            post(api::outbox::failed_event::bulk::replay),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/failed/redirect",
            Needs(Operate),
            Api,
            post(api::outbox::failed_event::bulk::redirect),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/failed/{id}/skip",
            Needs(Operate),
            Api,
            post(api::outbox::failed_event::operate::skip),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/failed/{id}/replay",
            Needs(Operate),
            Api,
            post(api::outbox::failed_event::operate::replay),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/failed/{id}/redirect",
            Needs(Operate),
            Api,
            post(api::outbox::failed_event::operate::redirect),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/failed/{id}/edit",
            // It writes the payload.
            Needs(Administer),
            Api,
            post(api::outbox::failed_event::operate::edit),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/events",
            // It writes the payload.
            Needs(Administer),
            Api,
            post(api::outbox::event::add),
        ),
        route(g.clone(), "/api/v1/outbox/events", Needs(View), Api, get(api::outbox::event::list)),
        route(
            g.clone(),
            "/api/v1/outbox/events/{id}",
            // It has the payload.
            Needs(Administer),
            Api,
            get(api::outbox::event::show),
        ),
        route(g.clone(), "/api/v1/outbox/relays", Needs(View), Api, get(api::outbox::relay::list)),
        route(g.clone(), "/api/v1/outbox/attached", Needs(View), Api, get(api::outbox::attached::list)),
        route(
            p.clone(),
            "/api/v1/outbox/attached",
            Needs(Administer),
            Api,
            post(api::outbox::attached::attach),
        ),
        route(
            d.clone(),
            "/api/v1/outbox/attached/{schema}/{table}",
            Needs(Administer),
            Api,
            delete(api::outbox::attached::detach),
        ),
        route(
            g.clone(),
            "/api/v1/outbox/attached/{schema}/{table}/failed",
            Needs(View),
            Api,
            get(api::outbox::attached::failed::list),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/attached/{schema}/{table}/skip",
            Needs(Operate),
            Api,
            post(api::outbox::attached::failed::skip),
        ),
        route(
            p.clone(),
            "/api/v1/outbox/attached/{schema}/{table}/replay",
            Needs(Operate),
            Api,
            post(api::outbox::attached::failed::replay),
        ),
        route(p.clone(), "/api/v1/renders", Needs(Operate), Api, post(api::render::order)),
        route(g.clone(), "/api/v1/renders", Needs(View), Api, get(api::render::list)),
        route(p.clone(), "/api/v1/renders/poll", Needs(Operate), Api, post(api::render::operate::poll)),
        route(g.clone(), "/api/v1/renders/{id}", Needs(View), Api, get(api::render::show)),
        route(
            g.clone(),
            "/api/v1/renders/{id}/data",
            // It is the payload.
            Needs(Administer),
            Api,
            get(api::render::data),
        ),
        route(
            p.clone(),
            "/api/v1/renders/{id}/cancel",
            Needs(Operate),
            Api,
            post(api::render::operate::cancel),
        ),
        route(
            p.clone(),
            "/api/v1/renders/{id}/retry",
            Needs(Operate),
            Api,
            post(api::render::operate::retry),
        ),
        route(
            p.clone(),
            "/api/v1/renders/{id}/recover",
            Needs(Operate),
            Api,
            post(api::render::operate::recover),
        ),
        route(g.clone(), "/api/v1/renders/{id}/attempts", Needs(View), Api, get(api::render::attempt::list)),
        route(g.clone(), "/api/v1/renders/{id}/audit", Needs(View), Api, get(api::render::attempt::audit)),
        route(g.clone(), "/api/v1/render-workers", Needs(View), Api, get(api::render::worker::list)),
        route(g.clone(), "/api/v1/render-mappings", Needs(View), Api, get(api::render::mapping::list)),
        route(
            p.clone(),
            "/api/v1/render-mappings",
            // Expressions are code that nodes run.
            Needs(Administer),
            Api,
            post(api::render::mapping::save),
        ),
        route(
            d.clone(),
            "/api/v1/render-mappings/{name}",
            Needs(Administer),
            Api,
            delete(api::render::mapping::remove),
        ),
        route(g.clone(), "/api/v1/render-profiles", Needs(View), Api, get(api::render::profile::list)),
        route(p.clone(), "/api/v1/render-profiles", Needs(Administer), Api, post(api::render::profile::save)),
        route(
            d.clone(),
            "/api/v1/render-profiles/{name}",
            Needs(Administer),
            Api,
            delete(api::render::profile::remove),
        ),
        route(p.clone(), "/acquire", Needs(Request), Document, post(api::pool::document::handle::acquire)),
        route(p.clone(), "/release", Needs(Request), Document, post(api::pool::document::handle::release)),
        route(g.clone(), "/status", Needs(Request), Document, get(api::pool::document::handle::status)),
        route(p.clone(), "/", Needs(Request), Document, post(api::pool::document::handle::any)),
        route(
            p.clone(),
            "/2015-03-31/functions/{name}/invocations",
            Needs(Request),
            Lambda,
            post(lambda::handle::invoke),
        ),
        route(
            p.clone(),
            "/2014-11-13/functions/{name}/invoke-async",
            Needs(Request),
            Lambda,
            post(lambda::handle::invoke_async),
        ),
        route(
            p.clone(),
            "/2014-11-13/functions/{name}/invoke-async/",
            Needs(Request),
            Lambda,
            post(lambda::handle::invoke_async),
        ),
        route(
            g.clone(),
            "/2015-03-31/functions/{name}",
            Needs(Request),
            Lambda,
            get(lambda::handle::describe),
        ),
    ];
    routes.extend(page::routes());
    routes
}

/// What is in the table besides, where the program has an extra action.
pub fn action_route() -> Route {
    page::of_action()
}

/// The router of the table, without the layers around it.
pub(crate) fn router(routes: Vec<Route>) -> Router<State> {
    routes.into_iter().fold(Router::new(), |router, route| router.route(route.path, route.handler))
}
