//! Encrypts texts at rest: AES-256-GCM in a JSON envelope, which fits into the same column. Pure: key and nonce are given.
//!
//! ```json
//! {"enc": {"v": 1, "kid": "2026-11", "nonce": "<base64>", "data": "<base64>"}}
//! ```
//!
//! The text's place is authenticated, so an envelope that was moved to another row cannot be opened.

use crate::codec::hex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use std::fmt;

const VERSION: u8 = 1;

/// A nonce must never be used twice with one key.
pub const NONCE_BYTES: usize = NONCE_LEN;

/// Never printed.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A keyed hash in hexadecimal digits: equal texts have equal hashes, and without the key nobody can guess texts.
    pub fn hash(&self, text: &str) -> String {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.0);
        hex(ring::hmac::sign(&key, text.as_bytes()).as_ref())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    enc: Sealed,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    v: u8,
    kid: String,
    nonce: String,
    data: String,
}

/// Another key, another place, or modified data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the key does not fit, or the text was changed")]
pub struct CannotOpen;

impl Envelope {
    /// `None` if the text is not an envelope but in clear.
    pub fn read(text: &str) -> Option<Self> {
        // Most texts are in clear, and may be large.
        if !text.trim_start().starts_with('{') || !text.contains("\"enc\"") {
            return None;
        }
        serde_json::from_str(text).ok()
    }

    pub fn key_id(&self) -> &str {
        &self.enc.kid
    }

    pub fn text(&self) -> String {
        let Sealed { v, kid, nonce, data } = &self.enc;
        serde_json::json!({ "enc": { "v": v, "kid": kid, "nonce": nonce, "data": data } }).to_string()
    }

    /// Bound to `place`.
    pub fn seal(kid: &str, key: &Key, nonce: [u8; NONCE_BYTES], place: &str, text: &str) -> Self {
        let mut data = text.as_bytes().to_vec();
        cipher(key)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad(kid, place), &mut data)
            .expect("a text is far from the 64 GiB that one nonce can take");
        let (nonce, data) = (STANDARD.encode(nonce), STANDARD.encode(data));
        Self { enc: Sealed { v: VERSION, kid: kid.to_owned(), nonce, data } }
    }

    /// Bound to `place`.
    pub fn open(&self, key: &Key, place: &str) -> Result<String, CannotOpen> {
        let Sealed { v, kid, nonce, data } = &self.enc;
        let nonce = STANDARD.decode(nonce).ok().and_then(|nonce| nonce.try_into().ok()).ok_or(CannotOpen)?;
        let mut data = STANDARD.decode(data).map_err(|_| CannotOpen)?;
        if *v != VERSION {
            return Err(CannotOpen);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let text = cipher(key).open_in_place(nonce, aad(kid, place), &mut data).map_err(|_| CannotOpen)?;
        String::from_utf8(text.to_vec()).map_err(|_| CannotOpen)
    }
}

fn cipher(key: &Key) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key.0).expect("a key has 32 bytes"))
}

/// Ids have no line breaks, so no two pairs give the same bytes.
fn aad(kid: &str, place: &str) -> Aad<Vec<u8>> {
    Aad::from(format!("tidemill render {VERSION}\n{kid}\n{place}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Key = Key([7; 32]);
    const NONCE: [u8; NONCE_BYTES] = [3; NONCE_BYTES];

    #[test]
    fn nothing_of_text_or_key_shows() {
        let sealed = Envelope::seal("k1", &KEY, NONCE, "render/1", r#"{"name": "PHIL IVEY"}"#);

        assert!(!sealed.text().contains("PHIL") && !format!("{sealed:?}").contains("PHIL"));
        assert_eq!(format!("{KEY:?}"), "Key(…)");
        assert_eq!(sealed.key_id(), "k1");
    }

    #[test]
    fn what_is_no_envelope_is_in_clear() {
        for clear in
            ["", "{}", "null", r#"{"enc": 1}"#, r#"{"enc": {"v": 1}}"#, r#"{"slots": [], "enc": {}}"#]
        {
            assert_eq!(Envelope::read(clear), None, "{clear}");
        }
    }

    #[test]
    fn an_unknown_version_is_not_opened() {
        let mut sealed = Envelope::seal("k1", &KEY, NONCE, "render/1", "x");
        sealed.enc.v = 2;

        assert_eq!(sealed.open(&KEY, "render/1"), Err(CannotOpen));
    }

    proptest! {
        #[test]
        fn texts_read_back_from_what_is_stored(text: String, key: [u8; 32], nonce: [u8; 12], id: i64) {
            let (key, place) = (Key::new(key), format!("render/{id}"));
            let stored = Envelope::seal("k", &key, nonce, &place, &text).text();

            let read = Envelope::read(&stored).unwrap();

            prop_assert_eq!(read.open(&key, &place), Ok(text));
        }

        #[test]
        fn only_the_right_key_opens_it_in_the_right_place(text: String, other: [u8; 32], id in 2..i64::MAX) {
            prop_assume!(other != KEY.0);
            let sealed = Envelope::seal("k", &KEY, NONCE, "render/1", &text);

            prop_assert_eq!(sealed.open(&Key::new(other), "render/1"), Err(CannotOpen));
            prop_assert_eq!(sealed.open(&KEY, &format!("render/{id}")), Err(CannotOpen));
            let mut renamed = sealed;
            renamed.enc.kid = "k2".to_owned();
            prop_assert_eq!(renamed.open(&KEY, "render/1"), Err(CannotOpen));
        }

        #[test]
        fn a_changed_bit_is_noticed(text in ".{1,40}", place in 0..1_000_usize, bit in 0..8_u8) {
            let mut sealed = Envelope::seal("k", &KEY, NONCE, "render/1", &text);
            let mut data = STANDARD.decode(&sealed.enc.data).unwrap();
            let index = place % data.len();
            data[index] ^= 1 << bit;
            sealed.enc.data = STANDARD.encode(data);

            prop_assert_eq!(sealed.open(&KEY, "render/1"), Err(CannotOpen));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text: String) {
            let _any = Envelope::read(&text);
        }
    }
}
