//! Which relays may run together: either all share fairly, or all have different fixed shares of the same total; and either
//! all publish in transactions of the same name, or none. The relay that joined first decides.

use super::{Instance, LiveRelay};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JoinRefusal {
    #[error("this relay has {}, but {other} runs", .mine.settings())]
    FixedAmongFair { mine: Instance, other: Box<LiveRelay> },
    #[error("this relay has no fixed share, but {other} runs")]
    FairAmongFixed { other: Box<LiveRelay> },
    /// Otherwise some slots would be in two shares and some in none.
    #[error("this relay has {}, but {other} runs", .mine.settings())]
    TotalsDiffer { mine: Instance, other: Box<LiveRelay> },
    /// One shares groups and the other slots; or neither sees what the other has sent.
    #[error("this relay publishes {}, but {other} publishes {}", describe(mine.as_deref()), describe(other.transactional_id.as_deref()))]
    TransactionsDiffer { mine: Option<String>, other: Box<LiveRelay> },
    #[error("this relay has {}, and so has {other}", .mine.settings())]
    IdTaken { mine: Instance, other: Box<LiveRelay> },
}

crate::code::fixes!(JoinRefusal {
    FixedAmongFair => "unset RELAY_INSTANCE_ID and RELAY_TOTAL_INSTANCES for this relay, or set them for all and stop the others first";
    FairAmongFixed => "give this relay its own RELAY_INSTANCE_ID and the RELAY_TOTAL_INSTANCES of the others, or stop them and unset both for all";
    TotalsDiffer => "set the same RELAY_TOTAL_INSTANCES for all relays; to change it, stop all of them first; or unset it and RELAY_INSTANCE_ID for all, so that their number may change at any time";
    TransactionsDiffer => "set the same outbox.kafka.transactional and outbox.kafka.transactional_id for all relays; to change them, stop all of them first";
    IdTaken => "give this relay a RELAY_INSTANCE_ID that no other has; if the other was killed, try again in a few seconds, when its lease has ended";
});

fn describe(transactional_id: Option<&str>) -> String {
    match transactional_id {
        Some(id) => format!("in transactions of {id}"),
        None => "without transactions".to_owned(),
    }
}

/// Whether a relay with this fixed share and transactional id may join the live ones.
pub fn admit(
    newcomer: Option<Instance>,
    transactional_id: Option<&str>,
    live: &[LiveRelay],
) -> Result<(), JoinRefusal> {
    let Some(first) = earliest(live) else { return Ok(()) };
    let other = || Box::new(first.clone());
    if first.transactional_id.as_deref() != transactional_id {
        let mine = transactional_id.map(str::to_owned);
        return Err(JoinRefusal::TransactionsDiffer { mine, other: other() });
    }
    match (newcomer, first.instance) {
        (None, None) => Ok(()),
        (Some(mine), None) => Err(JoinRefusal::FixedAmongFair { mine, other: other() }),
        (None, Some(_)) => Err(JoinRefusal::FairAmongFixed { other: other() }),
        (Some(mine), Some(theirs)) if mine.total() != theirs.total() => {
            Err(JoinRefusal::TotalsDiffer { mine, other: other() })
        }
        (Some(mine), Some(_)) => match live.iter().find(|other| other.instance == Some(mine)) {
            Some(other) => Err(JoinRefusal::IdTaken { mine, other: Box::new(other.clone()) }),
            None => Ok(()),
        },
    }
}

/// The ids of fixed shares without a relay: events of their slots wait. Empty if relays share fairly.
pub fn missing_shares(live: &[LiveRelay]) -> Vec<u32> {
    let Some(first) = earliest(live).and_then(|first| first.instance) else { return Vec::new() };
    let is_there = |id: &u32| live.iter().filter_map(|relay| relay.instance).any(|one| one.id() == *id);
    (0..first.total()).filter(|id| !is_there(id)).collect()
}

/// The other live relays agree with this one.
fn earliest(live: &[LiveRelay]) -> Option<&LiveRelay> {
    live.iter().min_by_key(|relay| (relay.joined_at, relay.id))
}

#[cfg(test)]
mod tests {
    use super::super::relay::tests::relay;
    use super::*;

    fn fixed(id: u32, total: u32) -> Option<Instance> {
        Some(Instance::new(id, total).unwrap())
    }

    #[test]
    fn who_agrees_with_the_others_joins() {
        assert_eq!(admit(None, None, &[]), Ok(()));
        assert_eq!(admit(fixed(2, 3), Some("shop"), &[]), Ok(()));
        assert_eq!(admit(None, None, &[relay(1, None, 0), relay(2, None, 0)]), Ok(()));
        assert_eq!(admit(None, Some("shop"), &[transactional(1, "shop")]), Ok(()));
        assert_eq!(admit(fixed(2, 3), None, &[relay(1, fixed(0, 3), 0), relay(2, fixed(1, 3), 0)]), Ok(()));
    }

    fn transactional(n: u32, id: &str) -> LiveRelay {
        LiveRelay { transactional_id: Some(id.to_owned()), ..relay(n, None, 0) }
    }

    #[test]
    fn who_does_not_agree_about_transactions_is_refused() {
        for (mine, other, text) in [
            (
                Some("shop"),
                relay(1, None, 0),
                "this relay publishes in transactions of shop, \
                 but relay relay-1 (process 101 on host mill, without a fixed share) publishes without transactions",
            ),
            (
                None,
                transactional(2, "shop"),
                "this relay publishes without transactions, \
                 but relay relay-2 (process 102 on host mill, without a fixed share) publishes in transactions of shop",
            ),
            (
                Some("store"),
                transactional(3, "shop"),
                "this relay publishes in transactions of store, \
                 but relay relay-3 (process 103 on host mill, without a fixed share) publishes in transactions of shop",
            ),
        ] {
            let refusal = admit(None, mine, &[other]).unwrap_err();

            assert_eq!(refusal.to_string(), text);
            assert!(refusal.fix().contains("outbox.kafka.transactional"), "{}", refusal.fix());
        }
    }

    #[test]
    fn who_does_not_is_refused_and_told_of_the_other() {
        fn check(newcomer: Option<Instance>, live: &[LiveRelay], other: u32, text: &str) {
            let refusal = admit(newcomer, None, live).unwrap_err();

            assert!(refusal.to_string().contains(&format!("(process {} ", 100 + other)), "{refusal}");
            assert_eq!(refusal.to_string(), text);
            assert!(refusal.fix().contains("RELAY_INSTANCE_ID"), "{}", refusal.fix());
        }
        // The one that joined first is not the first of the list.
        let all_fixed = [relay(5, fixed(0, 3), 0), relay(4, fixed(2, 3), 0)];

        check(
            fixed(0, 3),
            &[relay(2, None, 0), relay(1, None, 0)],
            1,
            "this relay has RELAY_INSTANCE_ID=0 and RELAY_TOTAL_INSTANCES=3, \
             but relay relay-1 (process 101 on host mill, without a fixed share) runs",
        );
        check(
            None,
            &all_fixed,
            4,
            "this relay has no fixed share, but relay relay-4 \
             (process 104 on host mill, RELAY_INSTANCE_ID=2 and RELAY_TOTAL_INSTANCES=3) runs",
        );
        check(
            fixed(3, 4),
            &all_fixed,
            4,
            "this relay has RELAY_INSTANCE_ID=3 and RELAY_TOTAL_INSTANCES=4, but relay relay-4 \
             (process 104 on host mill, RELAY_INSTANCE_ID=2 and RELAY_TOTAL_INSTANCES=3) runs",
        );
        check(
            fixed(0, 3),
            &all_fixed,
            5,
            "this relay has RELAY_INSTANCE_ID=0 and RELAY_TOTAL_INSTANCES=3, and so has relay relay-5 \
             (process 105 on host mill, RELAY_INSTANCE_ID=0 and RELAY_TOTAL_INSTANCES=3)",
        );
    }

    #[test]
    fn a_share_that_nobody_has_is_missing() {
        assert_eq!(missing_shares(&[relay(1, fixed(1, 4), 0), relay(2, fixed(3, 4), 0)]), [0, 2]);
        assert!(missing_shares(&[relay(1, fixed(0, 1), 0)]).is_empty());
        assert!(missing_shares(&[relay(1, None, 0)]).is_empty());
        assert!(missing_shares(&[]).is_empty());
    }
}
