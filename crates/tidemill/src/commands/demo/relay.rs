//! One relay of the demo: an ordinary one, which also ends when its standard input does. Whoever started it may be killed
//! at any time, and no process of the demo is left behind then.

use super::worker::when_input_ends;
use crate::commands::relay;
use crate::context::Context;
use crate::report::Failure;
use rustix::process::{Signal, getpid, kill_process};
use tidemill_domain::code::Exit;

pub(in crate::commands) async fn run(context: &Context) -> Result<Exit, Failure> {
    // The way in which relays are stopped in order.
    when_input_ends(|| {
        let _we_are_there = kill_process(getpid(), Signal::TERM);
    });
    relay::run(context).await
}
