//! The thread that starts every child.
//!
//! The kernel sends a parent-death signal when the *thread* that started the child ends, not the process. A
//! test's thread ends with its test, and a server that several tests share would die with the first of them.
//! So children are started by one thread that lives as long as the process.

use std::io;
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

type Order = (Command, Sender<io::Result<Child>>);

static ORDERS: LazyLock<Sender<Order>> = LazyLock::new(|| {
    let (orders, inbox) = channel::<Order>();
    // Without the thread the inbox is dropped, and `spawn` reports it.
    let _thread = thread::Builder::new().name("testkit-keeper".to_owned()).spawn(move || {
        for (mut command, reply) in inbox {
            if let Err(unheard) = reply.send(command.spawn())
                && let Ok(mut child) = unheard.0
            {
                let _killed = child.kill();
                let _reaped = child.wait();
            }
        }
    });
    orders
});

/// Starts `command` from a thread that outlives the caller's. The command is consumed, so that no pipe end
/// inside it stays open in this process.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = channel();
    let gone = || io::Error::other("the thread that starts children could not be started");
    ORDERS.send((command, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}
