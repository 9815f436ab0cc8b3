//! The trace that the current work belongs to. The crate that exports traces installs how to find it; without that crate
//! there is none.

use std::sync::OnceLock;
use tidemill_domain::trace::TraceParent;
use tracing::Span;

/// The target of spans that exist only for traces. The log leaves them out.
pub const TARGET: &str = "tidemill_trace";

/// What `tracing` itself cannot tell.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// The place of the span that is entered now.
    pub current: fn() -> Option<TraceParent>,
    /// The place of this span.
    pub place: fn(&Span) -> Option<TraceParent>,
    /// Makes the span a child of a place elsewhere. Only before the span is entered.
    pub follow: fn(&Span, TraceParent),
    /// Links the span to a place.
    pub link: fn(&Span, TraceParent),
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Only the first call of a process counts.
pub fn install(hooks: Hooks) {
    let _installed_already = HOOKS.set(hooks);
}

/// Whether traces are exported.
pub fn is_on() -> bool {
    HOOKS.get().is_some()
}

pub fn current() -> Option<TraceParent> {
    HOOKS.get().and_then(|hooks| (hooks.current)())
}

pub fn place(span: &Span) -> Option<TraceParent> {
    HOOKS.get().and_then(|hooks| (hooks.place)(span))
}

/// Without a place, the span stays where it is.
pub fn follow(span: &Span, parent: Option<TraceParent>) {
    if let (Some(hooks), Some(parent)) = (HOOKS.get(), parent) {
        (hooks.follow)(span, parent);
    }
}

pub fn link(span: &Span, place: TraceParent) {
    if let Some(hooks) = HOOKS.get() {
        (hooks.link)(span, place);
    }
}
