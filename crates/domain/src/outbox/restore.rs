//! Whether stored snapshots are still valid. They are transaction numbers of one server: after the database was dumped and
//! restored into another server, they are meaningless.

use super::snapshot::Snapshot;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerIdentity {
    /// Identifies the cluster; none when the database user may not read it.
    pub system_identifier: Option<String>,
    /// Grows when a standby is promoted or a backup is rolled forward.
    pub timeline: String,
    pub snapshot: Snapshot,
}

/// The server that the stored snapshots are from, as recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KnownServer {
    pub system_identifier: Option<String>,
    /// None when nothing was recorded yet.
    pub timeline: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreState {
    Same,
    First,
    /// The server was promoted or rolled forward. The snapshots are part of its history, so they stay valid.
    NewTimeline,
    Restored,
}

/// `newest` is the newest stored snapshot.
pub fn check(known: &KnownServer, current: &ServerIdentity, newest: Option<&Snapshot>) -> RestoreState {
    // A server never reuses the number of a committed transaction.
    if newest.is_some_and(|snapshot| snapshot.xmax() > current.snapshot.xmax()) {
        return RestoreState::Restored;
    }
    if let (Some(known), Some(now)) = (&known.system_identifier, &current.system_identifier)
        && known != now
    {
        return RestoreState::Restored;
    }
    match &known.timeline {
        None => RestoreState::First,
        // Timelines are hexadecimal numbers of the same length, and only grow.
        Some(timeline) if *timeline > current.timeline => RestoreState::Restored,
        Some(timeline) if *timeline < current.timeline => RestoreState::NewTimeline,
        // The user may not have been allowed to read it before.
        Some(_) if known.system_identifier.is_none() && current.system_identifier.is_some() => {
            RestoreState::First
        }
        Some(_) => RestoreState::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(system: Option<&str>, timeline: &str, xmax: i64) -> ServerIdentity {
        let system_identifier = system.map(str::to_owned);
        ServerIdentity { system_identifier, timeline: timeline.to_owned(), snapshot: Snapshot::up_to(xmax) }
    }

    fn known(system: Option<&str>, timeline: Option<&str>) -> KnownServer {
        KnownServer { system_identifier: system.map(str::to_owned), timeline: timeline.map(str::to_owned) }
    }

    #[test]
    fn each_history_has_its_standing() {
        let here = known(Some("7"), Some("00000002"));
        let cases = [
            (here.clone(), server(Some("7"), "00000002", 90), RestoreState::Same),
            (here.clone(), server(Some("7"), "00000003", 90), RestoreState::NewTimeline),
            (here.clone(), server(Some("7"), "00000001", 90), RestoreState::Restored),
            (here.clone(), server(Some("8"), "00000002", 90), RestoreState::Restored),
            (here.clone(), server(Some("7"), "00000002", 40), RestoreState::Restored),
            (here, server(None, "00000002", 90), RestoreState::Same),
            (known(None, None), server(Some("7"), "00000002", 90), RestoreState::First),
            (known(None, None), server(Some("7"), "00000002", 40), RestoreState::Restored),
            (known(None, Some("00000002")), server(Some("7"), "00000002", 90), RestoreState::First),
            (known(None, Some("00000002")), server(None, "00000002", 90), RestoreState::Same),
            (known(None, Some("00000002")), server(None, "00000001", 90), RestoreState::Restored),
        ];
        for (known, current, expected) in cases {
            let state = check(&known, &current, Some(&Snapshot::up_to(50)));
            assert_eq!(state, expected, "{known:?} {current:?}");
        }
    }

    #[test]
    fn without_marks_only_the_server_counts() {
        let here = known(Some("7"), Some("00000002"));

        assert_eq!(check(&here, &server(Some("7"), "00000002", 1), None), RestoreState::Same);
        assert_eq!(check(&here, &server(Some("8"), "00000002", 1), None), RestoreState::Restored);
    }
}
