//! Which connections a server accepts when places are scarce, and how long a connection may wait for its request.
//!
//! A connection is waiting until the whole head of a request has arrived: a new one, one that sends its head slowly, and
//! one that is kept alive between requests. When places are scarce, a waiting connection is closed for a new one; a
//! connection with a request in progress never is.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Most connections, even if the process may open more files.
const MOST: u64 = 10_000;
/// Files left for the process's own work, if it may open twice as many.
const FILES_OF_ITS_OWN: u64 = 64;
const RESERVE_MOST: u64 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Connections that may send any request.
    pub places: u32,
    /// Further connections, for health checks only.
    pub reserve: u32,
    /// Most connections of one address that may send any request.
    pub per_address: u32,
    /// How long a connection may wait for its request while places are not scarce.
    pub patience: Duration,
}

/// The open connections that may send any request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenConnections {
    pub open: u32,
    pub waiting: u32,
    pub open_of_address: u32,
    pub waiting_of_address: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    Free,
    /// The connection that has waited longest is closed to make room.
    InPlaceOf(Displaced),
    /// All places have a request in progress.
    HealthOnly,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Displaced {
    SameAddress,
    Anybody,
}

impl Bounds {
    /// The bounds of a process that may open `files` files. It keeps a quarter of them for its own work, up to a half if they
    /// are few. One address gets half of the places unless `per_address` is set.
    pub fn of_files(files: u64, per_address: Option<u32>, patience: Duration) -> Self {
        let own = (files / 4).max(FILES_OF_ITS_OWN.min(files / 2));
        let all = (files - own).clamp(2, MOST);
        let reserve = (all / 8).clamp(1, RESERVE_MOST);
        let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let places = number(all - reserve);
        let per_address = per_address.unwrap_or(places / 2).clamp(1, places);
        Self { places, reserve: number(reserve), per_address, patience }
    }

    pub fn all(&self) -> u32 {
        self.places.saturating_add(self.reserve)
    }

    pub fn admit(&self, crowd: OpenConnections) -> Admission {
        let of_address = crowd.open_of_address >= self.per_address;
        match (of_address, crowd.open < self.places) {
            (true, _) if crowd.waiting_of_address > 0 => Admission::InPlaceOf(Displaced::SameAddress),
            (true, _) => Admission::HealthOnly,
            (false, true) => Admission::Free,
            (false, false) if crowd.waiting > 0 => Admission::InPlaceOf(Displaced::Anybody),
            (false, false) => Admission::HealthOnly,
        }
    }

    /// How long a connection may wait for its request, if `open` others were open when it was admitted.
    pub fn head_timeout(&self, admission: Admission, open: u32) -> Duration {
        match admission {
            Admission::HealthOnly => self.patience / 30,
            Admission::InPlaceOf(_) => self.patience / 10,
            Admission::Free if open >= self.places.div_ceil(2) => self.patience / 10,
            Admission::Free => self.patience,
        }
    }
}

/// What counts as one address: for IPv6 the /64 network, which usually belongs to one host.
pub fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATIENCE: Duration = Duration::from_secs(75);

    fn bounds() -> impl Strategy<Value = Bounds> {
        let files = prop_oneof![0..5000_u64, any::<u64>()];
        (files, proptest::option::of(0..20_000_u32))
            .prop_map(|(files, per_address)| Bounds::of_files(files, per_address, PATIENCE))
    }

    fn crowd() -> impl Strategy<Value = OpenConnections> {
        (0..20_000_u32, 0..=100_u32, 0..=100_u32, 0..=100_u32).prop_map(|(open, waiting, of, waiting_of)| {
            let share = |whole: u32, percent: u32| u32::try_from(u64::from(whole) * u64::from(percent) / 100);
            let open_of_address = share(open, of).unwrap();
            let waiting_of_address = share(open_of_address, waiting_of).unwrap();
            let others = share(open - open_of_address, waiting).unwrap();
            OpenConnections {
                open,
                waiting: waiting_of_address + others,
                open_of_address,
                waiting_of_address,
            }
        })
    }

    proptest! {
        #[test]
        fn some_files_are_left_for_the_work(files in 4..u64::MAX, per_address: Option<u32>) {
            let bounds = Bounds::of_files(files, per_address, PATIENCE);

            let left = files - u64::from(bounds.all());
            prop_assert!(left >= files / 4 && left >= FILES_OF_ITS_OWN.min(files / 2));
            prop_assert!(bounds.places >= 1 && bounds.reserve >= 1);
            prop_assert!((1..=bounds.places).contains(&bounds.per_address));
        }

        #[test]
        fn a_request_is_answered_while_a_place_is_free_or_somebody_waits(bounds in bounds(), crowd in crowd()) {
            let is_below = crowd.open_of_address < bounds.per_address;

            let has_place = bounds.admit(crowd) != Admission::HealthOnly;

            let room = is_below && (crowd.open < bounds.places || crowd.waiting > 0);
            prop_assert_eq!(has_place, room || (!is_below && crowd.waiting_of_address > 0));
        }

        #[test]
        fn only_those_give_way_who_wait(bounds in bounds(), crowd in crowd()) {
            match bounds.admit(crowd) {
                Admission::InPlaceOf(Displaced::SameAddress) => prop_assert!(crowd.waiting_of_address > 0),
                Admission::InPlaceOf(Displaced::Anybody) => prop_assert!(crowd.waiting > 0),
                Admission::Free => prop_assert!(crowd.open < bounds.places),
                Admission::HealthOnly => {}
            }
        }

        #[test]
        fn one_address_never_drives_others_out_beyond_its_bound(bounds in bounds(), crowd in crowd()) {
            prop_assume!(crowd.open_of_address >= bounds.per_address);

            prop_assert!(!matches!(
                bounds.admit(crowd),
                Admission::Free | Admission::InPlaceOf(Displaced::Anybody)
            ));
        }

        #[test]
        fn the_fuller_it_is_the_shorter_one_may_wait(bounds in bounds(), fewer in 0..20_000_u32, more in 0..20_000_u32) {
            let crowd = |open: u32| OpenConnections { open, ..OpenConnections::default() };
            let timeout = |open: u32| bounds.head_timeout(bounds.admit(crowd(open)), open);

            let (calm, busy) = (timeout(fewer), timeout(fewer.saturating_add(more)));

            prop_assert!(busy <= calm && busy > Duration::ZERO && calm <= PATIENCE);
        }

        #[test]
        fn neighbours_in_a_network_of_ipv6_are_one(network: u64, one: u64, other: u64) {
            let address = |host: u64| {
                IpAddr::V6(Ipv6Addr::from_bits(u128::from(network) << 64 | u128::from(host)))
            };
            // An IPv6 network that maps IPv4 addresses has many hosts.
            prop_assume!(network != 0);

            prop_assert_eq!(origin(address(one)), origin(address(other)));
        }
    }

    #[test]
    fn addresses_of_ipv4_are_told_apart_however_they_are_written() {
        let of = |text: &str| origin(text.parse().unwrap());

        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("::ffff:192.0.2.1"), of("::ffff:192.0.2.2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
    }

    #[test]
    fn a_process_with_few_files_still_serves() {
        let of = |files: u64| {
            let bounds = Bounds::of_files(files, None, PATIENCE);
            (bounds.places, bounds.reserve, bounds.per_address)
        };

        assert_eq!(of(0), (1, 1, 1));
        assert_eq!(of(64), (28, 4, 14));
        assert_eq!(of(u64::MAX), (9984, 16, 4992));
    }

    #[test]
    fn a_thousand_files_give_three_quarters_as_places() {
        use crate::connection::Bounds;
        use std::time::Duration;
        let bounds = Bounds::of_files(1024, None, Duration::from_secs(75));
        assert_eq!((bounds.places, bounds.reserve, bounds.per_address), (752, 16, 376));
    }
}
