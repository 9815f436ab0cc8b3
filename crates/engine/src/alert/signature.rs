//! The signature that proves to a receiver that a notice is ours and recent.
//!
//! The header `Tidemill-Signature` is `t=SECONDS,v1=HEX`. HEX is the HMAC-SHA-256, with the shared secret, of the
//! seconds since 1970, a full stop, and the body. Receivers compute the same, compare in constant time, and reject old
//! ones.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write as _;
use tidemill_domain::time::Timestamp;

pub const HEADER: &str = "Tidemill-Signature";

/// The header value for `body`, sent at `now`.
///
/// ```
/// # use tidemill_domain::time::Timestamp;
/// # use tidemill_engine::alert::signature::signature;
/// let header = signature(b"secret", Timestamp::from_micros(1_500_000), "{}");
/// assert!(header.starts_with("t=1,v1=") && header.len() == 7 + 64);
/// ```
pub fn signature(secret: &[u8], now: Timestamp, body: &str) -> String {
    let seconds = now.as_micros().div_euclid(1_000_000);
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(body.as_bytes());
    let mut header = format!("t={seconds},v1=");
    for byte in mac.finalize().into_bytes() {
        let _infallible = write!(header, "{byte:02x}");
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_that_other_programs_compute() {
        // printf '1794708000.{"a":1}' | openssl dgst -sha256 -hmac 'key'
        let at: Timestamp = "2026-11-15T02:00:00Z".parse().unwrap();

        assert_eq!(
            signature(b"key", at, "{\"a\":1}"),
            "t=1794708000,v1=b426ade8dc50f47b27525fd5139062bc16cdd2a6280234cd6631d762f085682f"
        );
    }

    #[test]
    fn time_secret_and_body_each_change_it() {
        let at = Timestamp::from_micros(1_000_000);
        let code = |header: String| header.split_once(",v1=").unwrap().1.to_owned();
        let plain = code(signature(b"key", at, "body"));

        assert_ne!(code(signature(b"key", Timestamp::from_micros(2_000_000), "body")), plain);
        assert_ne!(code(signature(b"other", at, "body")), plain);
        assert_ne!(code(signature(b"key", at, "other")), plain);
        assert_eq!(
            signature(b"key", Timestamp::from_micros(1_999_999), "body"),
            signature(b"key", at, "body")
        );
        assert!(signature(b"", Timestamp::from_micros(-1), "").starts_with("t=-1,v1="));
    }
}
