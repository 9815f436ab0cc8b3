//! Properties of the lease's transition function.

use super::*;
use proptest::prelude::*;
use uuid::Uuid;

fn process() -> impl Strategy<Value = ProcessId> {
    (0..4_u128).prop_map(|n| ProcessId::new(Uuid::from_u128(n)))
}

fn fence() -> impl Strategy<Value = Fence> {
    (process(), 0..4_i64).prop_map(|(owner, epoch)| Fence { owner, epoch: Epoch::new(epoch) })
}

fn instant() -> impl Strategy<Value = Timestamp> {
    (0..100_i64).prop_map(Timestamp::from_micros)
}

fn lease() -> impl Strategy<Value = Lease> {
    prop_oneof![
        (0..4_i64).prop_map(|epoch| Lease::Free { epoch: Epoch::new(epoch) }),
        (fence(), prop::option::of(instant())).prop_map(|(fence, until)| Lease::Held { fence, until }),
    ]
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![Just(Life::Alive), Just(Life::Gone)]
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![Just(Term::Process), (1..50_u64).prop_map(|us| Term::For(Duration::from_micros(us)))]
}

fn event() -> impl Strategy<Value = LeaseEvent> {
    prop_oneof![
        (process(), life(), term()).prop_map(|(by, life, term)| LeaseEvent::Acquire { by, life, term }),
        (fence(), term()).prop_map(|(fence, term)| LeaseEvent::Renew { fence, term }),
        fence().prop_map(|fence| LeaseEvent::Release { fence }),
        Just(LeaseEvent::Expire),
    ]
}

proptest! {
    #[test]
    fn a_new_owner_has_a_new_epoch_and_the_epoch_never_shrinks(
        lease in lease(), owner in life(), event in event(), now in instant(),
    ) {
        if let Ok(after) = next(lease, owner, event, now) {
            prop_assert!(after.epoch() >= lease.epoch());
            if let Lease::Held { fence, .. } = after && !settles(lease, fence) {
                prop_assert_eq!(fence.epoch, lease.epoch().next());
            }
        }
    }

    #[test]
    fn a_live_lease_is_never_given_to_another(
        lease in lease(), by in process(), term in term(), now in instant(),
    ) {
        let answer = next(lease, Life::Alive, LeaseEvent::Acquire { by, life: Life::Alive, term }, now);
        prop_assert_eq!(answer.is_err(), lease.is_live(Life::Alive, now));
    }

    #[test]
    fn a_stale_fence_neither_renews_nor_releases(
        lease in lease(), owner in life(), fence in fence(), term in term(), now in instant(),
    ) {
        prop_assume!(!settles(lease, fence));
        let refused = Err(LeaseRefusal::Fenced { current: lease.epoch() });
        prop_assert_eq!(next(lease, owner, LeaseEvent::Renew { fence, term }, now), refused);
        prop_assert_eq!(next(lease, owner, LeaseEvent::Release { fence }, now), refused);
    }

    #[test]
    fn a_lapsed_lease_is_not_renewed(lease in lease(), term in term(), now in instant()) {
        if let Lease::Held { fence, .. } = lease {
            let renewed = next(lease, Life::Gone, LeaseEvent::Renew { fence, term }, now);
            prop_assert_eq!(renewed, Err(LeaseRefusal::Lapsed));
        }
    }

    #[test]
    fn a_ghost_acquires_nothing(lease in lease(), owner in life(), by in process(), term in term(), now in instant()) {
        let answer = next(lease, owner, LeaseEvent::Acquire { by, life: Life::Gone, term }, now);
        prop_assert_eq!(answer, Err(LeaseRefusal::AskerGone));
    }

    #[test]
    fn a_renewal_ends_one_term_from_now_wherever_the_old_end_was(lease in lease(), term in term(), now in instant()) {
        if let Lease::Held { fence, .. } = lease
            && let Ok(Lease::Held { until, .. }) = next(lease, Life::Alive, LeaseEvent::Renew { fence, term }, now)
        {
            prop_assert_eq!(until, term.until(now));
        }
    }

    #[test]
    fn expiring_frees_exactly_what_is_not_live(lease in lease(), owner in life(), now in instant()) {
        match next(lease, owner, LeaseEvent::Expire, now) {
            Ok(after) => prop_assert_eq!(after, Lease::Free { epoch: lease.epoch() }),
            Err(_) => prop_assert!(lease.is_live(owner, now)),
        }
    }

    #[test]
    fn any_text_makes_a_key_or_a_refusal(kind in ".{0,40}", name in ".{0,240}") {
        if let Ok(key) = LeaseKey::new(&kind, &name) {
            prop_assert!(key.kind().len() <= 32 && key.name().chars().count() <= 200);
        }
    }
}

#[test]
fn keys_are_bounded() {
    assert_eq!(LeaseKey::new("", "x"), Err(BadLeaseKey::Kind));
    assert_eq!(LeaseKey::new("1job", "x"), Err(BadLeaseKey::Kind));
    assert_eq!(LeaseKey::new(&"a".repeat(33), "x"), Err(BadLeaseKey::Kind));
    assert_eq!(LeaseKey::new("job", ""), Err(BadLeaseKey::Name));
    assert_eq!(LeaseKey::new("job", "a\nb"), Err(BadLeaseKey::Name));
    assert_eq!(LeaseKey::new("job", &"x".repeat(201)), Err(BadLeaseKey::Name));
    assert!(LeaseKey::new("job", "정산 배치").is_ok());
}

#[test]
fn a_key_is_a_kind_and_a_name() {
    use crate::lease::LeaseKey;
    let key = LeaseKey::new("outbox_slot", "17").unwrap();
    assert_eq!(key.to_string(), "outbox_slot/17");
    assert!(LeaseKey::new("Outbox", "17").is_err());
}
