//! `tidemill doctor`: one line per check, each with a remedy when it is not in order.

mod check;
mod database;
mod service;

use crate::context::Context;
use crate::report::Failure;
use check::{Check, Verdict, print};
use tidemill_domain::code::Exit;

pub(super) async fn run(context: &Context) -> Result<Exit, Failure> {
    let mut checks = vec![configuration(context)];
    checks.extend(database::look(context).await);
    checks.extend(service::kafka(context).await);
    checks.extend(service::renders(context).await);
    print(&checks, context.output())?;
    let is_healthy = checks.iter().all(|check| !matches!(check.verdict, Verdict::Bad { .. }));
    Ok(if is_healthy { Exit::Ok } else { Exit::Failure })
}

fn configuration(context: &Context) -> Check {
    let files = &context.loaded().files;
    let read = match files.as_slice() {
        [] => "no file, defaults and environment only".to_owned(),
        files => files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    };
    Check { name: "configuration", verdict: Verdict::Good(read) }
}
