//! What is measured.

/// Rows that are read at once.
pub(super) const BATCH: u32 = 1_000;

/// How events get from the table to the sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Design {
    /// Rows are claimed by an update that skips what others have locked, and updated again when they are out.
    Claim,
    /// Each relay has its slots and reads what is not marked as published; then it marks it.
    Flags,
    /// Each relay has its slots and writes down how far it has read.
    Ours,
}

/// A design, by so many relays at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Case {
    pub(super) design: Design,
    pub(super) relays: u32,
    /// Whether somebody has an old snapshot all the while, so that no dead row can be cleaned up.
    pub(super) is_pinned: bool,
}

impl Case {
    pub(super) const CLAIM: Self = Self { design: Design::Claim, relays: 3, is_pinned: false };
    pub(super) const FLAGS: Self = Self { design: Design::Flags, relays: 3, is_pinned: false };
    pub(super) const OURS: Self = Self { design: Design::Ours, relays: 3, is_pinned: false };
    pub(super) const OURS_PINNED: Self = Self { design: Design::Ours, relays: 3, is_pinned: true };
    pub(super) const CLAIM_PINNED: Self = Self { design: Design::Claim, relays: 3, is_pinned: true };

    /// What is compared.
    pub(super) const COMPARED: [Self; 4] = [Self::CLAIM, Self::FLAGS, Self::OURS, Self::OURS_PINNED];

    /// What is measured in every round: there and back again where the difference is small, so that whatever gets slower
    /// or faster meanwhile meets both.
    pub(super) const ROUND: [Self; 6] =
        [Self::CLAIM, Self::OURS, Self::OURS_PINNED, Self::FLAGS, Self::OURS_PINNED, Self::OURS];

    /// What is only told, so once is enough.
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
    /// Until all relays had their share of the slots, where that is a matter of time.
    pub(super) joining_seconds: f64,
    /// Bytes that the server wrote to its log meanwhile.
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
