//! The actions of operators in the description of the API, made from their table.

use tidemill_domain::action::{Action, Reason};
use utoipa::Modify;
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, Required, ResponseBuilder};

/// Adds the actions, and gives every operation a name of its own.
#[derive(Debug)]
pub(super) struct Actions;

impl Modify for Actions {
    fn modify(&self, openapi: &mut OpenApi) {
        for item in openapi.paths.paths.values_mut() {
            let operations =
                [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
            for operation in operations.into_iter().flatten() {
                let tag = operation.tags.as_ref().and_then(|tags| tags.first());
                let module = tag.map_or_else(String::new, |tag| tag.replace("::", "_"));
                let function = operation.operation_id.take().unwrap_or_default();
                operation.operation_id = Some(format!("{module}_{function}"));
            }
        }
        for action in Action::ALL {
            let declared = action.declaration();
            let method = if declared.method == "DELETE" { HttpMethod::Delete } else { HttpMethod::Post };
            openapi.paths.add_path_operation(declared.path, vec![method], operation(action));
        }
    }
}

/// The module that has an action, and what it answers with.
fn home(action: Action) -> (&'static str, Option<&'static str>) {
    match action {
        Action::ExecutionRestart
        | Action::ExecutionStop
        | Action::ExecutionAbandon
        | Action::ExecutionRecover => ("execution::operate", Some("Execution")),
        Action::SchedulePause | Action::ScheduleResume => ("schedule", Some("Schedule")),
        Action::PoolPause | Action::PoolResume => ("pool::define", Some("Pool")),
        Action::PoolRemove => ("pool::define", None),
        Action::LeaseRelease => ("pool::lease", Some("ReleasedLease")),
        Action::EventReplay | Action::EventSkip | Action::EventRedirect | Action::EventEdit => {
            ("outbox::failed_event::operate", Some("FailedEvent"))
        }
        Action::EventsReplay | Action::EventsSkip | Action::EventsRedirect => {
            ("outbox::failed_event::bulk", Some("ManyChanged"))
        }
        Action::RowsReplay | Action::RowsSkip => ("outbox::attached::failed", Some("OrderedRows")),
        Action::RenderCancel | Action::RenderRetry | Action::RenderRecover => {
            ("render::operate", Some("Render"))
        }
        Action::RendersPoll => ("render::operate", None),
        Action::AlertSilence => ("alert", Some("Silence")),
        Action::AlertUnsilence => ("alert", None),
        Action::TokenRevoke => ("token", None),
    }
}

/// What the body of a request is, as `operate::handler` reads it.
fn body(action: Action) -> Option<&'static str> {
    match action {
        Action::ExecutionRestart => Some("Restart"),
        Action::EventEdit => Some("EditEvent"),
        Action::EventRedirect => Some("RedirectEvent"),
        Action::EventsReplay | Action::EventsSkip => Some("ManyEvents"),
        Action::EventsRedirect => Some("RedirectEvents"),
        Action::RowsReplay | Action::RowsSkip => Some("OrderRows"),
        Action::AlertSilence => Some("CreateSilence"),
        Action::AlertUnsilence => Some("EndSilence"),
        Action::PoolRemove | Action::TokenRevoke => None,
        _ if action.declaration().reason == Reason::Required => Some("Order"),
        _ => Some("OptionalReason"),
    }
}

/// The statuses of an action: those of its answers, and those of problems.
fn statuses(action: Action) -> (&'static [&'static str], &'static [&'static str]) {
    match action {
        Action::ExecutionRestart => (&["202"], &["404", "409", "503"]),
        Action::ExecutionStop => (&["202"], &["404", "409"]),
        Action::RenderCancel => (&["200", "202"], &["404", "409"]),
        Action::RendersPoll => (&["202"], &[]),
        Action::AlertSilence => (&["201"], &[]),
        Action::AlertUnsilence
        | Action::TokenRevoke
        | Action::EventsReplay
        | Action::EventsSkip
        | Action::EventsRedirect => (&["200"], &[]),
        Action::EventRedirect | Action::EventEdit => (&["200"], &["400", "404", "409"]),
        Action::SchedulePause
        | Action::ScheduleResume
        | Action::PoolPause
        | Action::PoolResume
        | Action::RowsReplay
        | Action::RowsSkip => (&["200"], &["404"]),
        _ => (&["200"], &["404", "409"]),
    }
}

fn operation(action: Action) -> Operation {
    let declared = action.declaration();
    let (tag, answer) = home(action);
    let (answers, problems) = statuses(action);
    let content = |schema| ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    let mut operation = OperationBuilder::new()
        .tag(tag)
        .summary(Some(declared.about))
        .operation_id(Some(action.as_str().replace('.', "_")));
    for place in declared.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
        operation = operation.parameter(parameter(action, place));
    }
    if let Some(body) = body(action) {
        let body = RequestBodyBuilder::new().content("application/json", content(body));
        operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
    }
    let answers = answers.iter().map(|status| (status, answer));
    for (status, schema) in answers.chain(problems.iter().map(|status| (status, Some("Problem")))) {
        let response = ResponseBuilder::new();
        let response = match schema {
            Some(schema) => response.content("application/json", content(schema)),
            None => response,
        };
        operation = operation.response(*status, response.build());
    }
    operation.build()
}

fn parameter(action: Action, place: &str) -> ParameterBuilder {
    let is_number = place == "id" && !matches!(action, Action::LeaseRelease | Action::TokenRevoke);
    let schema = match is_number {
        true => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64))),
        false => ObjectBuilder::new().schema_type(Type::String),
    };
    let description = match (action, place) {
        (Action::TokenRevoke, _) => "Its public part",
        (Action::EventReplay | Action::EventSkip | Action::EventRedirect | Action::EventEdit, _) => {
            "Id of the event"
        }
        (_, "id") => "Its id",
        (_, "schema") => "Its schema",
        _ => "Its name",
    };
    ParameterBuilder::new()
        .name(place)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
}
