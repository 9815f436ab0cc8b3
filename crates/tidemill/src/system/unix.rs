//! Linux and other systems of its kind.

use rustix::process::Signal;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use std::fs::{File, OpenOptions, Permissions};
use std::future::poll_fn;
use std::io::{self, Write as _, stdout};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind};

/// Where the configuration of all users is.
pub(crate) const CONFIGURATION: &str = "/etc/tidemill/tidemill.toml";

/// Signals that this process receives.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// The signals that ask this process to end.
    pub(crate) fn to_end() -> io::Result<Self> {
        Self::of(&[Signal::TERM, Signal::INT])
    }

    pub(crate) fn of(signals: &[Signal]) -> io::Result<Self> {
        let receive = |signal: &Signal| Ok((*signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
        signals.iter().map(receive).collect::<io::Result<_>>().map(Self)
    }

    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|task| {
            let mut all = self.0.iter_mut();
            let received =
                all.find_map(|(signal, stream)| stream.poll_recv(task).is_ready().then_some(*signal));
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// The user of a process without the usual variables.
pub(crate) fn user() -> String {
    format!("uid {}", rustix::process::getuid().as_raw())
}

/// The width of the terminal that is the standard output.
pub(crate) fn columns() -> Option<usize> {
    Some(usize::from(tcgetwinsize(stdout()).ok()?.ws_col))
}

/// The line that the terminal answers, without showing a secret.
pub(crate) fn ask(question: &str, is_secret: bool) -> io::Result<String> {
    let input = io::stdin();
    let modes = tcgetattr(&input).ok().filter(|_| is_secret);
    if let Some(mut hidden) = modes.clone() {
        hidden.local_modes -= LocalModes::ECHO;
        let _shown = tcsetattr(&input, OptionalActions::Flush, &hidden);
    }
    let mut answer = String::new();
    let asked = write!(io::stderr(), "{question}: ").and_then(|()| input.read_line(&mut answer));
    if let Some(shown) = modes {
        let _hidden = tcsetattr(&input, OptionalActions::Now, &shown);
        let _cosmetic = writeln!(io::stderr());
    }
    asked.map(|_| answer)
}

/// Only the owner may use a file that is created.
pub(crate) fn create_private(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// The same for a file that may have existed.
pub(crate) fn make_private(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))
}
