//! The keys that encrypt the data of renders. Set by `StoreOptions::render_keys`; none by default.

use super::cipher::{Envelope, Key, NONCE_BYTES};
use crate::codec::hex;
use crate::error::{Result, StoreError};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tidemill_domain::code::Code;

/// Keys by their id, and which one encrypts. Cheap to clone; never printed.
///
/// ```
/// # use tidemill_store::render::Keys;
/// let keys = Keys::new([("2026-11".to_owned(), [7; 32])], "2026-11").unwrap();
/// assert_eq!(format!("{keys:?}"), r#"Keys(["2026-11"], current "2026-11")"#);
/// assert!(Keys::new([], "2026-11").is_err());
/// ```
#[derive(Clone, Default)]
pub struct Keys(Option<Arc<Ring>>);

struct Ring {
    keys: BTreeMap<String, Key>,
    current: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadKey {
    #[error("{id:?} is not a valid key id: write 1 to 32 letters, digits, '.', '_' and '-'")]
    Id {
        /// Truncated.
        id: String,
    },
    #[error("there are two keys with the id {id}")]
    Twice { id: String },
    #[error("there is no key with the id {id}, which is to encrypt")]
    NoCurrent { id: String },
}

impl BadKey {
    pub const fn code(&self) -> Code {
        Code::BadRenderKey
    }
}

impl Keys {
    /// Keys of 32 bytes by id. `current` encrypts; all decrypt.
    pub fn new(keys: impl IntoIterator<Item = (String, [u8; 32])>, current: &str) -> Result<Self, BadKey> {
        let mut by_id = BTreeMap::new();
        for (id, bytes) in keys {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if !(1..=32).contains(&id.len()) || !id.bytes().all(is_plain) {
                return Err(BadKey::Id { id: id.chars().take(40).collect() });
            }
            if by_id.insert(id.clone(), Key::new(bytes)).is_some() {
                return Err(BadKey::Twice { id });
            }
        }
        if !by_id.contains_key(current) {
            return Err(BadKey::NoCurrent { id: current.chars().take(40).collect() });
        }
        Ok(Self(Some(Arc::new(Ring { keys: by_id, current: current.to_owned() }))))
    }

    /// The id of the encrypting key; `None` without encryption.
    pub fn current(&self) -> Option<&str> {
        self.0.as_ref().map(|ring| ring.current.as_str())
    }

    /// Encrypts a text bound to `place`; `None` without a key.
    pub(crate) fn seal(&self, place: &str, text: &str) -> Result<Option<Envelope>> {
        let Some((id, key)) = self.sealing() else { return Ok(None) };
        let mut nonce = [0; NONCE_BYTES];
        SystemRandom::new().fill(&mut nonce).map_err(|_| StoreError::NoRandomness)?;
        Ok(Some(Envelope::seal(id, key, nonce, place, text)))
    }

    /// Decrypts an envelope; returns other text unchanged.
    pub(crate) fn open(&self, place: &str, stored: String) -> Result<String> {
        let Some(envelope) = Envelope::read(&stored) else { return Ok(stored) };
        let id = envelope.key_id();
        let key = self.0.as_ref().and_then(|ring| ring.keys.get(id));
        let key = key.ok_or_else(|| StoreError::KeyMissing { key: id.to_owned() })?;
        envelope
            .open(key, place)
            .map_err(|_| StoreError::CannotDecrypt { key: id.to_owned(), place: place.to_owned() })
    }

    /// Equal texts have equal hashes.
    pub(crate) fn hash(&self, text: &str) -> String {
        match self.sealing() {
            Some((_, key)) => key.hash(text),
            None => hex(&Sha256::digest(text.as_bytes())),
        }
    }

    fn sealing(&self) -> Option<(&str, &Key)> {
        let ring = self.0.as_ref()?;
        Some((ring.current.as_str(), ring.keys.get(&ring.current)?))
    }
}

/// Shows the ids only.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Keys(none)"),
            Some(ring) => {
                let ids: Vec<_> = ring.keys.keys().collect();
                write!(f, "Keys({ids:?}, current {:?})", ring.current)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(ids: &[(&str, u8)], current: &str) -> Keys {
        Keys::new(ids.iter().map(|(id, byte)| ((*id).to_owned(), [*byte; 32])), current).unwrap()
    }

    #[test]
    fn what_an_old_key_has_encrypted_is_still_read_after_a_rotation() {
        let before = keys(&[("old", 1)], "old");
        let after = keys(&[("old", 1), ("new", 2)], "new");

        let stored = before.seal("render/1", "text").unwrap().unwrap().text();
        let again = after.seal("render/1", "text").unwrap().unwrap();

        assert_eq!(after.open("render/1", stored).unwrap(), "text");
        assert_eq!(again.key_id(), "new");
    }

    #[test]
    fn a_key_that_is_missing_or_wrong_is_named() {
        let stored = keys(&[("k1", 1)], "k1").seal("render/1", "text").unwrap().unwrap().text();

        let missing = Keys::default().open("render/1", stored.clone()).unwrap_err();
        let wrong = keys(&[("k1", 2)], "k1").open("render/1", stored).unwrap_err();

        assert_eq!((missing.code(), wrong.code()), (Code::RenderKeyMissing, Code::RenderDataSealed));
        assert!(missing.to_string().contains("k1") && wrong.to_string().contains("k1"));
    }

    #[test]
    fn without_a_key_everything_stays_in_clear() {
        let none = Keys::default();

        assert_eq!(none.seal("render/1", "text").unwrap(), None);
        assert_eq!(none.open("render/1", "{}".to_owned()).unwrap(), "{}");
    }

    #[test]
    fn ids_that_nobody_could_write_into_an_envelope_are_refused() {
        for id in ["", "a b", "한글", "a\n", "123456789012345678901234567890123"] {
            assert!(matches!(Keys::new([(id.to_owned(), [0; 32])], id), Err(BadKey::Id { .. })), "{id:?}");
        }
        let twice = [("a".to_owned(), [0; 32]), ("a".to_owned(), [1; 32])];
        assert_eq!(Keys::new(twice, "a").unwrap_err(), BadKey::Twice { id: "a".to_owned() });
    }
}
