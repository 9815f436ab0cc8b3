//! Orderly ends, whatever kills the command.
//!
//! The process that was started by hand only waits; the work is done by a child in a process group of its own,
//! so that an interrupt from the terminal does not hit it. The child reads from a pipe that only its parent
//! holds open. However the parent dies, by Ctrl-C, SIGTERM or SIGKILL, the pipe ends, and the child stops what
//! it has started: no signal handler is needed, and no unsafe code.

use crate::memory::Memory;
use std::env;
use std::io::Read;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Tells the child that it is the child: it has the process id of its parent. Programs further down have it, too.
const MARK: &str = "TIDEMILL_XTASK_SUPERVISED";

/// Whether the work is to end early.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Whether nobody waits for the work any more.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` in a supervised child that gets the same `arguments`.
pub(crate) fn run(arguments: &[String], work: impl FnOnce(&Cancel) -> ExitCode) -> ExitCode {
    run_on(arguments, || None, work)
}

/// The same with a folder of its own for temporary files, if there is one.
pub(crate) fn run_on(
    arguments: &[String],
    place: impl FnOnce() -> Option<Memory>,
    work: impl FnOnce(&Cancel) -> ExitCode,
) -> ExitCode {
    if env::var(MARK).is_ok_and(|parent| parent == parent_id().to_string()) {
        let cancel = Cancel::default();
        let watcher = cancel.clone();
        thread::spawn(move || {
            // The parent never writes, so this returns when the parent is gone.
            let _end = std::io::stdin().read(&mut [0]);
            watcher.ask();
        });
        let _removed_at_last = Memory::given();
        return work(&cancel);
    }
    supervise(arguments, place().as_ref()).unwrap_or_else(|error| {
        eprintln!("xtask: cannot run itself as a supervised child: {error}");
        ExitCode::FAILURE
    })
}

fn supervise(arguments: &[String], place: Option<&Memory>) -> std::io::Result<ExitCode> {
    let mut command = Command::new(env::current_exe()?);
    Memory::keep_from(&mut command);
    if let Some(memory) = place {
        memory.give(&mut command);
    }
    command.args(arguments).env(MARK, std::process::id().to_string()).stdin(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    // Waiting would close the pipe, and the child would think that we are gone.
    let pipe = child.stdin.take();
    let status = child.wait()?;
    drop(pipe);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
