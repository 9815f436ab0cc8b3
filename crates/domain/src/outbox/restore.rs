//! Whether the snapshots of the outbox still mean something. They are numbers of transactions of one server: once the
//! database was dumped and restored into another one, they say nothing about what is written there.

use super::snapshot::Snapshot;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerIdentity {
    /// What tells one cluster from all others; none when the database user may not ask.
    pub system_identifier: Option<String>,
    /// The history of the cluster: it grows when a standby is promoted or a backup is rolled forward.
    pub timeline: String,
    pub snapshot: Snapshot,
}

/// The server that the stored snapshots are from, as it was written down.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KnownServer {
    pub system_identifier: Option<String>,
    /// None when nothing was ever written down.
    pub timeline: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreState {
    Same,
    First,
    /// They are from this server, whose history went on elsewhere. They were in it, so they went along.
    NewTimeline,
    Restored,
}

/// Compares what was written down with the server as it is. `newest` is the newest snapshot that is stored.
pub fn check(known: &KnownServer, current: &ServerIdentity, newest: Option<&Snapshot>) -> RestoreState {
    // A server never takes back the number of a transaction that it has committed.
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
        // Timelines are numbers in hexadecimal, all of the same length, and only grow.
        Some(timeline) if *timeline > current.timeline => RestoreState::Restored,
        Some(timeline) if *timeline < current.timeline => RestoreState::NewTimeline,
        // It may not have been allowed to ask before.
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
            let standing = check(&known, &current, Some(&Snapshot::up_to(50)));
            assert_eq!(standing, expected, "{known:?} {current:?}");
        }
    }

    #[test]
    fn without_marks_only_the_server_counts() {
        let here = known(Some("7"), Some("00000002"));

        assert_eq!(check(&here, &server(Some("7"), "00000002", 1), None), RestoreState::Same);
        assert_eq!(check(&here, &server(Some("8"), "00000002", 1), None), RestoreState::Restored);
    }
}
