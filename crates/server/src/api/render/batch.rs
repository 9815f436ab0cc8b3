//! Batches: renders that are ordered together from a table.

use super::{date, instant, object, unknown_batch};
use crate::api::{Answer, Body, Id, Read};
use crate::mutation::Caller;
use crate::operate::{ActionRequest, Outcome};
use crate::problem::{Problem, ProblemBody};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::collections::BTreeMap;
use tidemill_api::render::batch::{OrderRenders, OrderedBatch, RenderBatch, RetriedBatch};
use tidemill_domain::render::RenderId;
use tidemill_domain::render::selection::takes;
use tidemill_domain::render::sheet::{BadSheet, Columns, SheetOrder, SheetRow};
use tidemill_engine::render::sheet::{order, plan_rows};
use tidemill_engine::render::{Sheet, SheetError};
use tidemill_store::Tx;
use tidemill_store::render::{BatchRecord, PlannedRender, RenderChanged};

/// Order a render for each row of a table, all or none. With `dry_run`, plan every row and order none.
#[utoipa::path(post, path = "/api/v1/renders/batch", operation_id = "order_renders", request_body = OrderRenders, responses((status = 201, body = OrderedBatch), (status = 200, body = OrderedBatch), (status = 400, body = ProblemBody)))]
pub(crate) async fn order_all(caller: Caller, Body(body): Body<OrderRenders>) -> Result<Response, Problem> {
    if body.dry_run {
        let mut tx = caller.state.read().await?;
        let rows = plan(&caller, &body, &mut tx).await?;
        return Ok(Json(OrderedBatch::new(None, &rows)).into_response());
    }
    let what = format!("POST /api/v1/renders/batch {}", json!(body));
    caller.run_finding(&what, async |tx| submit(&caller, &body, tx).await).await
}

/// Plans every row. A token can be limited to some compositions.
pub(crate) async fn plan(
    caller: &Caller,
    body: &OrderRenders,
    tx: &mut Tx,
) -> Result<Vec<PlannedRender>, Problem> {
    let defaults = SheetOrder {
        composition: body.composition.clone(),
        priority: body.priority,
        deadline: body.deadline.as_deref().map(instant).transpose()?,
        broadcast_date: body.broadcast_date.as_deref().map(date).transpose()?,
        ..SheetOrder::default()
    };
    let sheet = Sheet { text: &body.csv, map: &body.map, defaults };
    // Only workers have the allow list.
    let rows = sheet.plan(tx, None).await?;
    rows.iter().try_for_each(|row| check_scope(caller, row))?;
    Ok(rows)
}

/// Plans the row of a table that is one form: the columns by their names, and the cells.
pub(crate) async fn plan_row(
    caller: &Caller,
    names: Vec<String>,
    cells: Vec<String>,
    tx: &mut Tx,
) -> Result<PlannedRender, Problem> {
    let line = |cells| SheetRow { line: 1, cells };
    let columns = Columns::of(&line(names), &BTreeMap::new())?;
    let rows = plan_rows(tx, &columns, &[line(cells)], &SheetOrder::default(), None).await?;
    let row = rows.into_iter().next().unwrap_or(PlannedRender::at(1));
    check_scope(caller, &row)?;
    Ok(row)
}

fn check_scope(caller: &Caller, row: &PlannedRender) -> Result<(), Problem> {
    let Some(order) = &row.order else { return Ok(()) };
    caller.principal.check_scope(&object(order.composition.as_deref()))
}

/// Orders all rows, or none if one has a problem.
pub(crate) async fn submit(caller: &Caller, body: &OrderRenders, tx: &mut Tx) -> Outcome {
    let mut rows = plan(caller, body, tx).await?;
    let batch = order(tx, &mut rows, &caller.principal.actor()).await?;
    let status = if batch.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, json!(OrderedBatch::new(batch, &rows))))
}

/// Show how far a batch is.
#[utoipa::path(get, path = "/api/v1/renders/batches/{id}", operation_id = "get_render_batch", params(("id" = i64, Path, description = "Id of the batch")), responses((status = 200, body = RenderBatch), (status = 404, body = ProblemBody)))]
pub(crate) async fn show(Id(id): Id, Read(mut tx): Read) -> Answer<RenderBatch> {
    Ok(Json(RenderBatch::from(&find(&mut tx, RenderId::new(id)).await?)))
}

pub(crate) async fn find(tx: &mut Tx, id: RenderId) -> Result<BatchRecord, Problem> {
    tx.renders().batch(id).await?.ok_or_else(|| unknown_batch(id))
}

/// Retries the failed renders of a batch, without those that a person has rejected.
pub(crate) async fn retry(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let batch = find(tx, RenderId::new(request.id()?)).await?.id;
    let mut failed = tx.renders().failed_in_batch(batch).await?;
    failed.retain(|record| takes(request.action, &record.render));
    for record in &failed {
        request.check_scope(&object(record.composition.as_deref()))?;
    }
    let mut retried = 0;
    for record in failed {
        // Whoever retried it meanwhile was quicker.
        let changed = tx.renders().retry(record.id(), &request.actor(), request.reason).await?;
        retried += usize::from(matches!(changed, RenderChanged::Done { .. }));
    }
    Ok((StatusCode::OK, json!(RetriedBatch { batch: batch.get(), retried })))
}

impl From<SheetError> for Problem {
    fn from(error: SheetError) -> Self {
        match error {
            SheetError::Sheet(bad) => bad.into(),
            SheetError::Store(error) => error.into(),
        }
    }
}

impl From<BadSheet> for Problem {
    fn from(bad: BadSheet) -> Self {
        Self::new(bad.code(), bad.to_string(), bad.fix())
    }
}
