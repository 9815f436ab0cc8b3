//! What completes the description of the API.

use crate::operate;
use tidemill_domain::action::Action;
use utoipa::Modify;
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, ContentBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder};

/// Completes what the handlers say about themselves: the actions, how callers authenticate, a description for everything
/// that must have one, and the problem that every operation may answer with.
#[derive(Debug)]
pub(crate) struct Complete;

impl Modify for Complete {
    fn modify(&self, openapi: &mut OpenApi) {
        for operation in operations(openapi) {
            // The tag is the module of the handler; its first part is the noun.
            let module = operation.tags.take().and_then(|tags| tags.into_iter().next()).unwrap_or_default();
            operation.tags = module.split("::").next().map(|noun| vec![noun.to_owned()]);
        }
        for action in Action::ALL {
            let declared = action.declaration();
            let method = if declared.method == "DELETE" { HttpMethod::Delete } else { HttpMethod::Post };
            openapi.paths.add_path_operation(declared.path, vec![method], operation(action));
        }
        for operation in operations(openapi) {
            let problem = ResponseBuilder::new()
                .description("Problem")
                .content("application/problem+json", of("Problem"));
            operation.responses.responses.insert("default".to_owned(), problem.build().into());
            for (status, response) in &mut operation.responses.responses {
                if let RefOr::T(response) = response
                    && response.description.is_empty()
                {
                    response.description = description(status).to_owned();
                }
            }
        }
        let token = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A token of `tidemill token create`, or a JWT of a configured issuer."));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(token.build()));
        // A server that listens on loopback may need no token.
        let nothing = SecurityRequirement::default();
        openapi.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new()), nothing]);
    }
}

fn operations(openapi: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = openapi.paths.paths.values_mut();
    items.flat_map(|item| {
        [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
            .into_iter()
            .flatten()
    })
}

fn description(status: &str) -> &'static str {
    match status {
        "201" => "Created",
        "202" => "Accepted: the change takes effect later",
        _ => "OK",
    }
}

fn of(schema: &str) -> Content {
    ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build()
}

/// The noun of an action, the status of its success, and the schema of its answer.
fn answer(action: Action) -> (&'static str, &'static str, Option<&'static str>) {
    match action {
        Action::ExecutionRestart | Action::ExecutionStop => ("execution", "202", Some("Execution")),
        Action::ExecutionAbandon | Action::ExecutionRecover => ("execution", "200", Some("Execution")),
        Action::SchedulePause | Action::ScheduleResume => ("schedule", "200", Some("Schedule")),
        Action::PoolPause | Action::PoolResume | Action::BreakerOpen | Action::BreakerClose => {
            ("pool", "200", Some("Pool"))
        }
        Action::PoolDelete => ("pool", "200", None),
        Action::LeaseRelease => ("pool", "200", Some("ReleasedLease")),
        Action::EventReplay | Action::EventSkip | Action::EventRedirect | Action::EventEdit => {
            ("outbox", "200", Some("FailedEvent"))
        }
        Action::EventsReplay | Action::EventsSkip | Action::EventsRedirect => {
            ("outbox", "200", Some("ChangedEvents"))
        }
        Action::RowsReplay | Action::RowsSkip => ("outbox", "200", Some("ChangedEvents")),
        // While the worker has yet to hear of it, `cancel` answers 202 with the same.
        Action::RenderCancel
        | Action::RenderApprove
        | Action::RenderReject
        | Action::RenderRetry
        | Action::RenderPrioritize
        | Action::RenderCorrect
        | Action::RenderRecover => ("render", "200", Some("Render")),
        Action::RendersCancel | Action::RendersRetry | Action::RendersPrioritize => {
            ("render", "200", Some("ChangedRenders"))
        }
        Action::BatchRetry => ("render", "200", Some("RetriedBatch")),
        Action::RendersPoll => ("render", "202", None),
        Action::AlertSilence => ("alert", "201", Some("Silence")),
        Action::AlertUnsilence => ("alert", "200", None),
        Action::TokenDelete => ("token", "200", None),
    }
}

fn operation(action: Action) -> Operation {
    let declared = action.declaration();
    let (noun, status, answer) = answer(action);
    let mut operation = OperationBuilder::new()
        .tag(noun)
        .summary(Some(declared.about))
        .operation_id(Some(operation_id(action)));
    for place in declared.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
        operation = operation.parameter(parameter(action, place));
    }
    if let Some(body) = operate::route(action).1 {
        let body = RequestBodyBuilder::new().content("application/json", of(&body));
        operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
    }
    let response = ResponseBuilder::new();
    let response = match answer {
        Some(schema) => response.content("application/json", of(schema)),
        None => response,
    };
    operation = operation.response(status, response.build());
    if action == Action::RenderCancel {
        operation = operation
            .response("202", ResponseBuilder::new().content("application/json", of("Render")).build());
    }
    operation.build()
}

/// The verb and the noun, such as `stop_execution`.
fn operation_id(action: Action) -> String {
    let noun = action.as_str().split('.').next().unwrap_or_default();
    match action {
        // Holders release their own leases with `release_pool_lease`.
        Action::LeaseRelease => "force_release_pool_lease".to_owned(),
        Action::PoolDelete => "delete_pool".to_owned(),
        Action::BatchRetry => "retry_render_batch".to_owned(),
        _ if matches!(noun, "event" | "events" | "rows") => format!("{}_failed_{noun}", action.verb()),
        _ => format!("{}_{noun}", action.verb()),
    }
}

fn parameter(action: Action, place: &str) -> ParameterBuilder {
    let is_number = place == "id" && !matches!(action, Action::LeaseRelease | Action::TokenDelete);
    let schema = match is_number {
        true => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64))),
        false => ObjectBuilder::new().schema_type(Type::String),
    };
    ParameterBuilder::new()
        .name(place)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(schema))
}
