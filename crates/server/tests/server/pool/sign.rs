//! Signs requests as clients of AWS do. That it signs as they do is shown by requests of theirs in `lambda/signed.json`,
//! which the same verifier accepts.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

pub(super) const KEY_ID: &str = "AKIDETL";
pub(super) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// When the clock of a server under test starts.
pub(super) const NOW: &str = "20261115T020000Z";
const HOST: &str = "127.0.0.1:7790";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// The headers of a signed POST. The path has nothing in it that would be encoded.
pub(super) fn headers(secret: &str, date: &str, path: &str, body: &str) -> Vec<(&'static str, String)> {
    let payload = hex(&Sha256::digest(body.as_bytes()));
    let canonical = format!("POST\n{path}\n\nhost:{HOST}\nx-amz-date:{date}\n\nhost;x-amz-date\n{payload}");
    let scope = format!("{}/eu-west-1/lambda/aws4_request", &date[..8]);
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let key = scope.split('/').fold(format!("AWS4{secret}").into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &text));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={KEY_ID}/{scope}, SignedHeaders=host;x-amz-date, Signature={signature}"
    );
    vec![("x-amz-date", date.to_owned()), ("authorization", authorization)]
}
