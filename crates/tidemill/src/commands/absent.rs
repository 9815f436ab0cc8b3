//! Commands that Windows does not offer, because they need its missing signals and process groups.

use crate::commands::prelude::*;
use std::ffi::OsString;

#[derive(Args, Debug)]
pub(crate) struct Absent {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

fn refused<T>(name: &str) -> Result<T> {
    let what = format!("Windows does not offer `tidemill {name}`");
    Err(Failure::new(Code::Usage, what, "run it on Linux, in a container or in WSL 2"))
}

pub(super) mod run {
    use super::*;

    pub(crate) type Run = Absent;

    pub(in crate::commands) async fn run(_arguments: Run, _context: &Context) -> Result<u8> {
        refused("run")
    }
}

pub(super) mod demo {
    use super::*;

    pub(crate) type Demo = Absent;

    pub(in crate::commands) async fn run(_arguments: &Demo, _context: &Context) -> Result<Exit> {
        refused("demo")
    }

    pub(in crate::commands) mod worker {
        use super::*;

        pub(crate) type DemoWorker = Absent;

        pub(in crate::commands) async fn run(_arguments: &DemoWorker, _context: &Context) -> Result<Exit> {
            refused("demo-worker")
        }
    }

    pub(in crate::commands) mod relays {
        use super::*;

        pub(in crate::commands) async fn run(_context: &Context) -> Result<Exit> {
            refused("demo-relay")
        }
    }
}
