//! The measured cases.

/// Rows per read.
pub(super) const BATCH: u32 = 1_000;

/// How events get from the table to the sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Design {
    /// An update claims rows and skips locked ones. Another update marks them when they are published.
    Claim,
    /// Each relay has its slots, reads the rows that are not marked as published, and marks them.
    Flags,
    /// Each relay has its slots and stores its position.
    Ours,
}

/// A design with a number of relays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Case {
    pub(super) design: Design,
    pub(super) relays: u32,
    /// Whether a session holds an old snapshot during the run, so that no dead row can be cleaned up.
    pub(super) is_pinned: bool,
}

impl Case {
    pub(super) const CLAIM: Self = Self { design: Design::Claim, relays: 3, is_pinned: false };
    pub(super) const FLAGS: Self = Self { design: Design::Flags, relays: 3, is_pinned: false };
    pub(super) const OURS: Self = Self { design: Design::Ours, relays: 3, is_pinned: false };
    pub(super) const OURS_PINNED: Self = Self { design: Design::Ours, relays: 3, is_pinned: true };
    pub(super) const CLAIM_PINNED: Self = Self { design: Design::Claim, relays: 3, is_pinned: true };

    /// The compared cases.
    pub(super) const COMPARED: [Self; 4] = [Self::CLAIM, Self::FLAGS, Self::OURS, Self::OURS_PINNED];

    /// The cases of every round. Cases with a small difference run twice, in forward and reverse order, so that a machine that
    /// gets slower or faster affects both.
    pub(super) const ROUND: [Self; 6] =
        [Self::CLAIM, Self::OURS, Self::OURS_PINNED, Self::FLAGS, Self::OURS_PINNED, Self::OURS];

    /// Cases that are only reported. They run once.
    pub(super) const ONCE: [Self; 4] = [
        Self { relays: 1, ..Self::CLAIM },
        Self { relays: 1, ..Self::FLAGS },
        Self { relays: 1, ..Self::OURS },
        Self::CLAIM_PINNED,
    ];

    pub(super) fn name(self) -> String {
        let design = match self.design {
            Design::Claim => "claim + mark",
            Design::Flags => "flags of slots",
            Design::Ours => "ours",
        };
        let relays = if self.relays == 1 { "1 relay".to_owned() } else { format!("{} relays", self.relays) };
        format!("{design}, {relays}{}", if self.is_pinned { ", old snapshot" } else { "" })
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) events: u64,
    pub(super) seconds: f64,
    /// The time until all relays had their share of the slots, for designs in which that takes time.
    pub(super) joining_seconds: f64,
    /// Bytes of WAL that the server wrote during the run.
    pub(super) wal_bytes: f64,
    /// Row versions of the events that vacuum has to clean up.
    pub(super) dead: u64,
    /// Statements of the relays.
    pub(super) statements: u64,
}

impl Measured {
    pub(super) fn events_per_second(&self) -> f64 {
        self.events as f64 / self.seconds
    }

    pub(super) fn wal_per_event(&self) -> f64 {
        self.wal_bytes / self.events as f64
    }

    pub(super) fn statements_per_10_000(&self) -> f64 {
        self.statements as f64 * 10_000.0 / self.events as f64
    }
}
