//! What the demo verified: found out from the database, not from what the workers say of themselves.

use super::LIMIT;
use super::worker::{KIND, SETTLED};
use crate::report::Failure;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;
use tidemill_domain::audit::AuditRecord;
use tidemill_domain::process::{ProcessId, ProcessState};
use tidemill_store::Store;
use tidemill_store::audit::AuditFilter;

/// Between two looks at who is still there.
const PAUSE: Duration = Duration::from_millis(100);

/// Claims, and whether each holds.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    lines: Vec<(bool, String)>,
}

impl Verdicts {
    pub(super) fn add(&mut self, holds: bool, claim: impl Into<String>) {
        self.lines.push((holds, claim.into()));
    }

    pub(super) fn all_hold(&self) -> bool {
        !self.lines.is_empty() && self.lines.iter().all(|(holds, _)| *holds)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (holds, claim) in &self.lines {
            let _infallible = writeln!(text, "{} {claim}", if *holds { "✓" } else { "✗" });
        }
        text
    }

    /// Reads what was settled and checks that no two owners ever worked on one thing side by side.
    pub(super) async fn judge(
        &mut self,
        store: &Store,
        things: u32,
        server: ProcessId,
    ) -> Result<(), Failure> {
        let mut tx = store.read().await?;
        let (mut settled, mut moves, mut violations) = (0, 0, 0);
        for thing in 1..=things {
            let object = Some(format!("{KIND}/{thing}"));
            let filter = AuditFilter { object, action: Some(SETTLED.to_owned()), ..AuditFilter::default() };
            let mut log = tx.audit().entries(&filter, 10_000).await?;
            log.reverse();
            settled += log.len();
            let judged = judge_one(&log);
            moves += judged.moves;
            violations += judged.violations;
        }
        drop(tx);
        // Whoever was killed counts until its lease has run out.
        let ending = async {
            while anybody_counts(store, server).await? {
                tokio::time::sleep(PAUSE).await;
            }
            Ok::<_, Failure>(())
        };
        let ended = match tokio::time::timeout(LIMIT, ending).await {
            Ok(ended) => ended.map(|()| true)?,
            Err(_) => false,
        };
        self.add(
            violations == 0 && settled > 0,
            format!(
                "{settled} pieces of work settled over {moves} changes of owner, {violations} by a ghost"
            ),
        );
        self.add(ended, "no worker is left that counts as alive");
        Ok(())
    }
}

/// Whether a process other than the server counts as alive.
async fn anybody_counts(store: &Store, server: ProcessId) -> Result<bool, Failure> {
    let mut tx = store.read().await?;
    let processes = tx.processes().list(100).await?;
    let mut workers = processes.iter().filter(|process| process.id != server);
    Ok(workers.any(|process| matches!(process.state, ProcessState::Live { .. })))
}

#[derive(Debug, PartialEq, Eq)]
struct Judged {
    moves: usize,
    violations: usize,
}

/// In the order of time, epochs never go back and each belongs to one owner.
fn judge_one(log: &[AuditRecord]) -> Judged {
    let mut owners: HashMap<i64, &str> = HashMap::new();
    let (mut latest, mut violations) = (0, 0);
    for record in log {
        let epoch = record.entry.to.as_deref().and_then(|epoch| epoch.parse().ok()).unwrap_or(-1);
        let owner = owners.entry(epoch).or_insert(&record.entry.actor.name);
        if epoch < latest || *owner != record.entry.actor.name {
            violations += 1;
        }
        latest = latest.max(epoch);
    }
    Judged { moves: owners.len().saturating_sub(1), violations }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::audit::{Actor, AuditEntry};
    use tidemill_domain::time::Timestamp;

    fn settled(owner: &str, epoch: i64) -> AuditRecord {
        let actor = Actor { name: owner.into(), ..Actor::system() };
        let entry = AuditEntry::new(actor, SETTLED, "demo/1").from_to("", &epoch.to_string());
        AuditRecord { id: 0, at: Timestamp::EPOCH, entry }
    }

    #[test]
    fn owners_after_one_another_are_in_order() {
        let log = [settled("a", 1), settled("a", 1), settled("b", 2), settled("a", 3)];

        assert_eq!(judge_one(&log), Judged { moves: 2, violations: 0 });
    }

    #[test]
    fn a_planted_ghost_is_found() {
        let ghost = [settled("a", 1), settled("b", 2), settled("a", 1)];
        let twins = [settled("a", 1), settled("b", 1)];

        assert_eq!(judge_one(&ghost).violations, 1);
        assert_eq!(judge_one(&twins).violations, 1);
    }

    #[test]
    fn nothing_verified_is_not_a_success() {
        assert!(!Verdicts::default().all_hold());
    }
}
