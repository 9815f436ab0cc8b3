//! `tidemill logs`: the output of the command and Spark steps of an execution, once or until the execution ends.

use super::job::execution_id;
use crate::commands::prelude::*;
use crate::report::printable;
use std::collections::HashMap;
use std::time::Duration;
use tidemill_domain::job::{ExecutionId, StepExecutionId};
use tidemill_engine::job::{LogFolder, LogPart};
use tidemill_server::api::execution::find;
use tidemill_server::api::execution::log::{is_selected, place};
use tidemill_store::Store;
use tidemill_store::job::StepRecord;

const PAUSE: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(crate) struct Logs {
    /// Id of the execution
    #[arg(value_parser = execution_id)]
    execution: ExecutionId,
    /// Keep printing new output until the execution ends
    #[arg(short, long)]
    follow: bool,
    /// Only the output of this step
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
}

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: &Logs, context: &Context) -> Result<Exit> {
    let (id, store) = (arguments.execution, context.store().await?);
    let folder = context.log_folder()?;
    let mut printer = Printer { folder, has_titles: true, next: HashMap::new(), current: None };
    loop {
        let mut tx = store.read().await?;
        // Read before the files, so that the last round sees all output.
        let is_running = find(&mut tx, id).await?.execution.status.is_running();
        let all = tx.jobs().steps(id).await?;
        drop(tx);
        let steps: Vec<&StepRecord> =
            all.iter().filter(|step| is_selected(step, arguments.step.as_deref())).collect();
        printer.has_titles = arguments.step.is_none() || steps.len() > 1;
        for step in &steps {
            printer.print(step)?;
        }
        if arguments.follow && is_running {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        if let (Some(name), true) = (&arguments.step, steps.is_empty()) {
            return Err(unknown_step(id, name, &all));
        }
        return report_missing(&steps, &printer, &store, context).await;
    }
}

fn unknown_step(id: ExecutionId, name: &str, all: &[StepRecord]) -> Failure {
    let names: Vec<&str> = all.iter().map(|step| step.name.as_str()).collect();
    let fix = match names.as_slice() {
        [] => "no step has started yet; wait for it with --follow".to_owned(),
        names => format!("its steps are: {}", names.join(", ")),
    };
    Failure::new(Code::NotFound, format!("execution {id} has no step {name:?}"), fix)
}

/// Tells where output is that this machine does not have.
async fn report_missing(
    steps: &[&StepRecord],
    printer: &Printer,
    store: &Store,
    context: &Context,
) -> Result<Exit> {
    let mut tx = store.read().await?;
    let mut missing = Vec::new();
    for step in steps.iter().filter(|step| !printer.next.contains_key(&step.id)) {
        missing.extend(place(&mut tx, step.id).await?.map(|place| place.advice(&step.name)));
    }
    match missing.first() {
        Some(advice) if printer.next.is_empty() => {
            Err(Failure::new(Code::OutputElsewhere, "this machine does not have the output", advice))
        }
        None if printer.next.is_empty() => context.done("no output: only command and Spark steps have some"),
        _ => {
            missing.iter().for_each(|advice| context.note(advice));
            Ok(Exit::Ok)
        }
    }
}

struct Printer {
    folder: LogFolder,
    /// Whether the name of the step is printed before its output.
    has_titles: bool,
    next: HashMap<StepExecutionId, u64>,
    /// The step whose output was printed last.
    current: Option<StepExecutionId>,
}

impl Printer {
    fn print(&mut self, step: &StepRecord) -> Result<()> {
        let from = self.next.get(&step.id).copied().unwrap_or(0);
        let read = self.folder.read(step.execution, step.id, from).map_err(|error| {
            let fix = "check the permissions of the file";
            Failure::new(Code::OutputElsewhere, "the output cannot be read", fix).because(error)
        });
        let Some(part) = read? else { return Ok(()) };
        self.next.insert(step.id, part.end());
        if part.bytes.is_empty() {
            return Ok(());
        }
        if self.has_titles && self.current != Some(step.id) {
            write_stdout(printable(&format!("==> step {} <==\n", step.name)))?;
            self.current = Some(step.id);
        }
        let is_gap = part.from > from;
        let text = if is_gap { part.text() } else { LogPart { from: 0, ..part }.text() };
        // A bare carriage return would hide text on a terminal.
        write_stdout(printable(&text.replace("\r\n", "\n").replace('\r', "\n")))?;
        Ok(())
    }
}
