//! Every route with the permission that it needs. A route that is not in this table does not exist.

mod page;

pub use page::action_route;

use crate::api::describe::Complete;
use crate::api::{alert, audit, execution, job, outbox, pool, process, render, schedule, token};
use crate::problem::ProblemBody;
use crate::state::State;
use crate::{api, health, lambda, operate};
use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{self, MethodRouter};
use tidemill_api::alert::{CreateSilence, EndSilence, Silence};
use tidemill_api::execution::RestartExecution;
use tidemill_api::failed_event::{
    ChangeEvents, ChangeRows, ChangedEvents, EditEvent, RedirectEvent, RedirectEvents,
};
use tidemill_api::render::batch::RetriedBatch;
use tidemill_api::render::selection::{ChangeRenders, ChangedRenders, PrioritizeRender, PrioritizeRenders};
use tidemill_api::render::{ApproveRender, CorrectRender, RejectRender};
use tidemill_domain::access::Permission;
use tidemill_domain::action::Action;
use utoipa::OpenApi;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Public,
    Needs(Permission),
}

/// The kind of client, which decides the form of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surface {
    /// Programs get a problem object.
    Api,
    /// People get a page, or are sent to the login.
    Page,
    /// Clients of the EMR Batch Agent API get a problem object. They may sign their requests.
    EmrAgent,
    /// Clients of AWS Lambda get an error of that service. They may sign their requests.
    Lambda,
}

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub surface: Surface,
    handler: MethodRouter<State>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?} {:?}", self.method, self.path, self.access, self.surface)
    }
}

impl Route {
    fn new(method: Method, path: &'static str, access: Access, handler: MethodRouter<State>) -> Self {
        Self { method, path, access, surface: Surface::Api, handler }
    }

    fn on(self, surface: Surface) -> Self {
        Self { surface, ..self }
    }
}

const VIEW: Access = Access::Needs(Permission::View);
const OPERATE: Access = Access::Needs(Permission::Operate);
const ADMINISTER: Access = Access::Needs(Permission::Administer);
const REQUEST: Access = Access::Needs(Permission::Request);

macro_rules! methods {
    ($($name:ident $method:ident),+) => {$(
        fn $name<T: 'static>(path: &'static str, access: Access, handler: impl Handler<T, State>) -> Route {
            Route::new(Method::$method, path, access, routing::$name(handler))
        }
    )+};
}

methods!(get GET, post POST, delete DELETE, patch PATCH);

const REQUESTS: &str = "/api/v1/requests";

/// Whether requests may wait for units. `path` is one of the table, perhaps below a base path.
pub(crate) fn waits(surface: Surface, path: &str) -> bool {
    match surface {
        Surface::EmrAgent | Surface::Lambda => true,
        Surface::Api => path.ends_with(REQUESTS),
        Surface::Page => false,
    }
}

/// Whether the answer is a stream without end. `path` is one of the table, perhaps below a base path, so that a pool named
/// `ui` does not count.
pub(crate) fn streams(path: &str) -> bool {
    path.ends_with("/ui/events")
}

pub fn routes() -> Vec<Route> {
    let actions = Action::ALL.into_iter().map(|action| {
        let declared = action.declaration();
        let method = if declared.method == "DELETE" { Method::DELETE } else { Method::POST };
        Route::new(method, declared.path, Access::Needs(declared.permission), operate::route(action).0)
    });
    api_routes().into_iter().chain(other_routes()).chain(actions).chain(page::routes()).collect()
}

/// Whether a route is served where nothing runs between two requests: no jobs, no dashboard, no metrics.
pub(crate) fn is_about_pools(route: &Route) -> bool {
    const PATHS: [&str; 5] = ["/api/v1/pools", REQUESTS, "/api/v1/pool-leases", "/healthz/", "/openapi.json"];
    matches!(route.surface, Surface::EmrAgent | Surface::Lambda)
        || PATHS.iter().any(|path| route.path.starts_with(path))
}

/// Declares the routes of the API, and the OpenAPI document that describes their handlers.
macro_rules! api_routes {
    ($($method:ident($path:expr, $access:expr, $($handler:ident)::+),)+) => {
        fn api_routes() -> Vec<Route> {
            vec![$($method($path, $access, $($handler)::+)),+]
        }

        #[derive(OpenApi)]
        #[openapi(
            info(title = "Tidemill", description = "Batch operations on the database you already have"),
            paths($($($handler)::+),+),
            components(schemas(
                ProblemBody,
                CreateSilence,
                EndSilence,
                Silence,
                RestartExecution,
                operate::OptionalReason,
                operate::Order,
                ChangeEvents,
                ChangeRows,
                ChangedEvents,
                EditEvent,
                RedirectEvent,
                RedirectEvents,
                ApproveRender,
                CorrectRender,
                RejectRender,
                PrioritizeRender,
                PrioritizeRenders,
                ChangeRenders,
                ChangedRenders,
                RetriedBatch
            )),
            modifiers(&Complete)
        )]
        pub struct Api;
    };
}

api_routes! {
    get("/api/v1/processes", VIEW, process::list),
    get("/api/v1/leases", VIEW, process::leases),
    get("/api/v1/audit", VIEW, audit::list),
    get("/api/v1/alerts", VIEW, alert::list),
    get("/api/v1/jobs", VIEW, job::list),
    get("/api/v1/jobs/{name}", VIEW, job::show),
    get("/api/v1/jobs/{name}/instances", VIEW, job::instances),
    post("/api/v1/jobs/{name}/executions", OPERATE, job::launch::launch),
    get("/api/v1/executions", VIEW, execution::list),
    get("/api/v1/executions/{id}", VIEW, execution::show),
    get("/api/v1/executions/{id}/steps", VIEW, execution::steps),
    get("/api/v1/executions/{id}/context", VIEW, execution::job_context),
    get("/api/v1/executions/{id}/steps/{step}/context", VIEW, execution::step_context),
    get("/api/v1/executions/{id}/logs", VIEW, execution::log::logs),
    // Rejects are payloads.
    get("/api/v1/executions/{id}/steps/{step}/rejects", ADMINISTER, execution::rejects),
    get("/api/v1/schedules", VIEW, schedule::list),
    get("/api/v1/schedules/{name}", VIEW, schedule::show),
    get("/api/v1/schedules/{name}/ticks", VIEW, schedule::ticks),
    get("/api/v1/tokens", ADMINISTER, token::list),
    post("/api/v1/tokens", ADMINISTER, token::create),
    get("/api/v1/outbox/stats", VIEW, outbox::stats),
    get("/api/v1/pools", VIEW, pool::list),
    post("/api/v1/pools", ADMINISTER, pool::define::create),
    get("/api/v1/pools/{name}", VIEW, pool::show),
    patch("/api/v1/pools/{name}", OPERATE, pool::define::change),
    get("/api/v1/pools/{name}/holders", VIEW, pool::holders),
    get("/api/v1/pools/{name}/queue", VIEW, pool::queue),
    get("/api/v1/pools/{name}/events", VIEW, pool::events),
    get("/api/v1/pools/{name}/demand", VIEW, pool::demand),
    get("/api/v1/pools/{name}/demand/keda", VIEW, pool::keda),
    post(REQUESTS, REQUEST, pool::request::create),
    get("/api/v1/requests/{id}", REQUEST, pool::request::show),
    delete("/api/v1/requests/{id}", REQUEST, pool::request::cancel),
    get("/api/v1/pool-leases/{id}", VIEW, pool::lease::show),
    delete("/api/v1/pool-leases/{id}", REQUEST, pool::lease::release),
    post("/api/v1/pool-leases/{id}/heartbeat", REQUEST, pool::lease::heartbeat),
    get("/api/v1/outbox/failed", VIEW, outbox::failed_event::list),
    // It has the payload.
    get("/api/v1/outbox/failed/{id}", ADMINISTER, outbox::failed_event::show),
    // It writes the payload.
    post("/api/v1/outbox/events", ADMINISTER, outbox::add),
    get("/api/v1/outbox/events", VIEW, outbox::events),
    // It has the payload.
    get("/api/v1/outbox/events/{id}", ADMINISTER, outbox::event),
    get("/api/v1/outbox/relays", VIEW, outbox::relays),
    get("/api/v1/outbox/attached", VIEW, outbox::attached::list),
    post("/api/v1/outbox/attached", ADMINISTER, outbox::attached::attach),
    delete("/api/v1/outbox/attached/{schema}/{table}", ADMINISTER, outbox::attached::detach),
    get("/api/v1/outbox/attached/{schema}/{table}/failed", VIEW, outbox::attached::failed),
    post("/api/v1/renders", OPERATE, render::order),
    get("/api/v1/renders", VIEW, render::list),
    post("/api/v1/renders/plan", OPERATE, render::plan),
    post("/api/v1/renders/batch", OPERATE, render::batch::order_all),
    get("/api/v1/renders/batches/{id}", VIEW, render::batch::show),
    get("/api/v1/renders/{id}", VIEW, render::show),
    // It is the payload.
    get("/api/v1/renders/{id}/data", ADMINISTER, render::data),
    get("/api/v1/renders/{id}/attempts", VIEW, render::attempts),
    get("/api/v1/renders/{id}/audit", VIEW, render::audit),
    get("/api/v1/render-workers", VIEW, render::workers),
    get("/api/v1/render-mappings", VIEW, render::composition::mappings),
    // Expressions are code that nodes run.
    post("/api/v1/render-mappings", ADMINISTER, render::composition::save_mappings),
    delete("/api/v1/render-mappings/{name}", ADMINISTER, render::composition::remove_mappings),
    get("/api/v1/render-profiles", VIEW, render::composition::profiles),
    post("/api/v1/render-profiles", ADMINISTER, render::composition::save_profiles),
    delete("/api/v1/render-profiles/{name}", ADMINISTER, render::composition::remove_profile),
}

/// The routes for machines and for clients of AWS.
fn other_routes() -> Vec<Route> {
    use Access::Public;
    use Surface::{EmrAgent, Lambda};
    vec![
        get("/healthz/live", Public, health::live),
        get("/healthz/ready", Public, health::ready),
        get("/healthz/startup", Public, health::startup),
        get("/health", Public, health::worker),
        get("/metrics", VIEW, health::metrics),
        get("/openapi.json", Public, api::openapi),
        post("/acquire", REQUEST, pool::emr_agent::serve::acquire).on(EmrAgent),
        post("/release", REQUEST, pool::emr_agent::serve::release).on(EmrAgent),
        get("/status", REQUEST, pool::emr_agent::serve::status).on(EmrAgent),
        post("/", REQUEST, pool::emr_agent::serve::any).on(EmrAgent),
        post("/2015-03-31/functions/{name}/invocations", REQUEST, lambda::invoke).on(Lambda),
        post("/2014-11-13/functions/{name}/invoke-async", REQUEST, lambda::invoke_async).on(Lambda),
        post("/2014-11-13/functions/{name}/invoke-async/", REQUEST, lambda::invoke_async).on(Lambda),
        get("/2015-03-31/functions/{name}", REQUEST, lambda::describe).on(Lambda),
        // The same with a token instead of a signature. The access layer takes the token out of the address.
        post("/aws/{token}/2015-03-31/functions/{name}/invocations", REQUEST, lambda::invoke).on(Lambda),
        post("/aws/{token}/2014-11-13/functions/{name}/invoke-async", REQUEST, lambda::invoke_async)
            .on(Lambda),
        post("/aws/{token}/2014-11-13/functions/{name}/invoke-async/", REQUEST, lambda::invoke_async)
            .on(Lambda),
        get("/aws/{token}/2015-03-31/functions/{name}", REQUEST, lambda::describe).on(Lambda),
    ]
}

pub(crate) fn router(routes: Vec<Route>) -> Router<State> {
    routes.into_iter().fold(Router::new(), |router, route| router.route(route.path, route.handler))
}
