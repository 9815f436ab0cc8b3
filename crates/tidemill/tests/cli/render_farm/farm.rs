//! A real nexrender of a test's own, or one that tests share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tidemill_testkit::nexrender::find_home;
use tidemill_testkit::{NexrenderOptions, PrivateNexrender, skip};

/// How many nodes the farm has that tests share.
const SHARED_NODES: usize = 3;

/// A farm of the test's own, or one that it shares with others.
pub(super) enum Farm {
    Own(Box<PrivateNexrender>),
    Shared(Arc<Mutex<PrivateNexrender>>),
}

impl Farm {
    /// The farm of those who do nothing to it. It ends with the last of them. None when its tests are skipped.
    pub(super) fn shared() -> Option<Self> {
        static SHARED: Mutex<Weak<Mutex<PrivateNexrender>>> = Mutex::new(Weak::new());
        let mut shared = locked(&SHARED);
        if let Some(farm) = shared.upgrade() {
            return Some(Self::Shared(farm));
        }
        let options = NexrenderOptions { nodes: SHARED_NODES, ..NexrenderOptions::default() };
        let farm = Arc::new(Mutex::new(start(&options)?));
        *shared = Arc::downgrade(&farm);
        Some(Self::Shared(farm))
    }

    /// One of the test's own, to which anything may be done.
    pub(super) fn own(nodes: usize) -> Option<Self> {
        Self::with(&NexrenderOptions { nodes, ..NexrenderOptions::default() })
    }

    pub(super) fn with(options: &NexrenderOptions) -> Option<Self> {
        Some(Self::Own(Box::new(start(options)?)))
    }

    /// The farm, for those who may do anything to it.
    pub(super) fn mine(&mut self) -> &mut PrivateNexrender {
        match self {
            Self::Own(farm) => farm,
            Self::Shared(_) => panic!("others work with this farm"),
        }
    }

    /// Asks it something, or opens a gate.
    pub(super) fn ask<T>(&self, ask: impl FnOnce(&PrivateNexrender) -> T) -> T {
        match self {
            Self::Own(farm) => ask(farm),
            Self::Shared(farm) => ask(&locked(farm)),
        }
    }

    /// Lets renderers go on that wait at this gate.
    pub(super) fn open_gate(&self, name: &str) {
        self.ask(|farm| farm.open_gate(name)).unwrap();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(options: &NexrenderOptions) -> Option<PrivateNexrender> {
    skip::require("nexrender", find_home())?;
    Some(PrivateNexrender::start(options).unwrap())
}
