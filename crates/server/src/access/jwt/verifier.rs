//! Verifies signatures of JSON Web Tokens with `ring`. Nothing here signs or uses a private key.

use super::Signature;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};

/// RSA key sizes of `ring`. RFC 7518 requires the lower bound.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// An uncompressed P-256 point.
const P256_BYTES: usize = 65;

/// Makes `ring` the verifier of this process. Only the first call of a process counts.
pub(super) fn install() {
    let _chosen_already = PROVIDER.install_default();
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Whether the key fits the signature.
pub(super) fn is_usable(key: &DecodingKey, signature: Signature) -> bool {
    let Ok(bytes) = key.try_get_as_bytes() else { return false };
    match signature {
        // A short secret can be guessed from a single token.
        Signature::Hs256 => bytes.len() >= 32,
        Signature::Rs256 => modulus_bits(bytes).is_some_and(|bits| RSA_BITS.contains(&bits)),
        Signature::Es256 => bytes.len() == P256_BYTES,
    }
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if !matches!(algorithm, Algorithm::HS256 | Algorithm::RS256 | Algorithm::ES256) {
        return Err(ErrorKind::UnsupportedAlgorithm.into());
    }
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.try_get_as_bytes()?.to_vec() }))
}

struct RingVerifier {
    algorithm: Algorithm,
    key: Vec<u8>,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let by = |algorithm: &'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(algorithm, &self.key).verify(message, signature)
        };
        let verified = match self.algorithm {
            Algorithm::HS256 => {
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.key);
                ring::hmac::verify(&key, message, signature)
            }
            Algorithm::RS256 => by(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::ES256 => by(&ECDSA_P256_SHA256_FIXED),
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// How many bits the modulus of an RSA public key has: in DER, a sequence of the modulus and the exponent.
fn modulus_bits(der: &[u8]) -> Option<usize> {
    let (sequence, after) = element(0x30, der)?;
    let (modulus, rest) = element(0x02, sequence)?;
    let (_exponent, end) = element(0x02, rest)?;
    let is_whole = after.is_empty() && end.is_empty();
    let digits = modulus.iter().position(|byte| *byte != 0).map(|zeros| &modulus[zeros..])?;
    let leading = digits.first()?.leading_zeros() as usize;
    is_whole.then_some(digits.len() * 8 - leading)
}

/// The content of the first element, which has this tag, and what comes after it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, der) = der.split_first()?;
    let (short, der) = der.split_first()?;
    let (length, der) = match short {
        0..=0x7f => (usize::from(*short), der),
        0x81 => der.split_first().map(|(low, der)| (usize::from(*low), der))?,
        0x82 => {
            der.split_first_chunk::<2>().map(|(bytes, der)| (usize::from(u16::from_be_bytes(*bytes)), der))?
        }
        _ => return None,
    };
    (*first == tag).then(|| der.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RSA_1024: &[u8] = b"-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDEqIpTdysO32Dc8SfWLKWYwSRm
L//fraBSY+W01teetob4MvbWa5M4jtiAeU1x2UWtulwHyQrdrv0QBr3RBz2aZDvH
ZnQxCNQnqNSNFP2rWw/n6aHBCFPDnmNUKJimglz8bfQtynmCK8VIpBInl9y5mOVg
zpufvZcJdc0McqYCGwIDAQAB
-----END PUBLIC KEY-----
";
    const P384: &[u8] = b"-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEOFvIIOWK9s/o0+CsLdvRL3omz5/QLYnt
mJjKvFPJR0sTtsky7mMwGWVdQQXMXWm2akbAamSMUKKG0WB+TDglgaN0CuCU3bKH
dqmH1EMu/LK4lMTxgT7raFjCseom4A0c
-----END PUBLIC KEY-----
";

    #[test]
    fn keys_with_which_nothing_could_be_verified_are_known() {
        let short = DecodingKey::from_rsa_pem(RSA_1024).unwrap();
        let other_curve = DecodingKey::from_ec_pem(P384).unwrap();
        let private =
            DecodingKey::from_rsa_pem(include_bytes!("../../../tests/server/keys/rsa.pem")).unwrap();
        let public =
            DecodingKey::from_rsa_pem(include_bytes!("../../../tests/server/keys/rsa.pub.pem")).unwrap();

        assert_eq!(modulus_bits(short.try_get_as_bytes().unwrap()), Some(1024));
        assert_eq!(modulus_bits(public.try_get_as_bytes().unwrap()), Some(2048));
        assert!(is_usable(&public, Signature::Rs256));
        assert!(!is_usable(&short, Signature::Rs256) && !is_usable(&private, Signature::Rs256));
        assert!(!is_usable(&other_curve, Signature::Es256));
    }

    proptest! {
        #[test]
        fn any_bytes_may_be_taken_for_a_key(bytes: Vec<u8>) {
            let bits = modulus_bits(&bytes);

            prop_assert!(bits.is_none_or(|bits| bits <= bytes.len() * 8));
        }
    }
}
