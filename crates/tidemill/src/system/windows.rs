//! Windows. Who may read a file follows from the rights of its folder.

use console::Term;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

/// None: every user may create folders on the system drive.
pub(crate) const CONFIGURATION: &str = "";

/// The events of a console that ask this process to end. A service wrapper sends the first.
pub(crate) struct Signals(CtrlC, CtrlBreak, CtrlClose, CtrlShutdown);

impl Signals {
    pub(crate) fn to_end() -> io::Result<Self> {
        Ok(Self(ctrl_c()?, ctrl_break()?, ctrl_close()?, ctrl_shutdown()?))
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
            _ = self.2.recv() => {}
            _ = self.3.recv() => {}
        }
    }
}

/// The user of this process.
pub(crate) fn user() -> String {
    std::env::var("USERNAME").unwrap_or_else(|_| "windows".to_owned())
}

/// The width of the console that is the standard output.
pub(crate) fn columns() -> Option<usize> {
    Some(usize::from(Term::stdout().size_checked()?.1))
}

/// The line that the console answers, without showing a secret.
pub(crate) fn ask(question: &str, is_secret: bool) -> io::Result<String> {
    write!(io::stderr(), "{question}: ")?;
    if is_secret {
        return Term::stderr().read_secure_line();
    }
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer)
}

/// Windows has no such modes.
pub(crate) fn create_private(_options: &mut OpenOptions) {}

/// Windows has no such modes.
pub(crate) fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}
