//! The metrics of this crate: one function per event, so that a name is written once.

use metrics::{counter, describe_counter};

const FENCING_REJECTIONS: &str = "tidemill_fencing_rejections_total";
const LEASE_EXPIRED: &str = "tidemill_lease_expired_total";
const LEASE_TAKEOVERS: &str = "tidemill_lease_takeovers_total";
const PROCESSES_EXPIRED: &str = "tidemill_processes_expired_total";
const SELF_FENCED: &str = "tidemill_self_fenced_total";

/// Tells the recorder what the metrics mean.
pub fn describe() {
    describe_counter!(FENCING_REJECTIONS, "Writes of ghosts that were refused, by kind of lease.");
    describe_counter!(LEASE_EXPIRED, "Lapsed leases that this process freed, by kind.");
    describe_counter!(LEASE_TAKEOVERS, "Lapsed leases that this process took over, by kind.");
    describe_counter!(PROCESSES_EXPIRED, "Silent processes that this process declared dead.");
    describe_counter!(
        SELF_FENCED,
        "Times that this process gave itself up because it could not renew in time."
    );
}

pub(crate) fn fencing_rejected(kind: &str) {
    counter!(FENCING_REJECTIONS, "kind" => kind.to_owned()).increment(1);
}

pub(crate) fn lease_expired(kind: &str) {
    counter!(LEASE_EXPIRED, "kind" => kind.to_owned()).increment(1);
}

pub(crate) fn lease_taken_over(kind: &str) {
    counter!(LEASE_TAKEOVERS, "kind" => kind.to_owned()).increment(1);
}

pub(crate) fn processes_expired(count: usize) {
    counter!(PROCESSES_EXPIRED).increment(count as u64);
}

pub(crate) fn self_fenced() {
    counter!(SELF_FENCED).increment(1);
}
