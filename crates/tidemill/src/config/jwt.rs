//! The sections `[jwt.issuers.NAME]`: whose JSON Web Tokens the server accepts.

use super::choice::JwtAlgorithm;
use super::error::ConfigError;
use super::layer::Given;
use super::load::SectionValue;
use super::secret::Secret;
use super::section::ISSUERS;
use super::sources::Sources;
use super::table::{Entry, entry, first_origin, names, refuse, secret, shown, text, word};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IssuerSettings {
    /// The name of its table.
    pub name: String,
    /// The claim `iss` of its tokens.
    pub issuer: String,
    /// The claim `aud` of its tokens.
    pub audience: String,
    /// The algorithm of its signatures; a token cannot choose another.
    pub algorithm: JwtAlgorithm,
    /// The key of its signatures.
    pub key: IssuerKey,
    /// The claim that holds the role of the caller.
    pub role_claim: String,
}

/// The key of an issuer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IssuerKey {
    /// A secret that both sides know, for HS256.
    Shared(Secret),
    /// The file of a public key in PEM.
    Public(PathBuf),
}

/// The issuers, and each value as it is shown; what is wrong is added to `problems`.
pub(super) fn settle(
    given: &BTreeMap<String, Given>,
    sources: &Sources,
    problems: &mut Vec<ConfigError>,
) -> (Vec<IssuerSettings>, Vec<SectionValue>) {
    let (mut issuers, mut values) = (Vec::new(), Vec::new());
    for name in names(&ISSUERS, given) {
        let Some(entry) = entry(&ISSUERS, &name, Entry::new(), given, sources, problems) else { continue };
        match issuer(&name, &entry, given) {
            Ok(issuer) => {
                values.extend(shown(&ISSUERS, &name, &entry));
                issuers.push(issuer);
            }
            Err(problem) => problems.push(problem),
        }
    }
    (issuers, values)
}

fn issuer(name: &str, entry: &Entry, given: &BTreeMap<String, Given>) -> Result<IssuerSettings, ConfigError> {
    let path = format!("{}.{name}", ISSUERS.path);
    let origin = first_origin(&ISSUERS, name, given);
    let missing = |why: &str, fix: &str| refuse(path.clone(), &origin, None, why.to_owned(), fix.to_owned());
    let required = |leaf: &str| {
        let why = format!("an issuer has the key {leaf}, and this one has none");
        text(entry, leaf).ok_or_else(|| missing(&why, &format!("add {leaf} = \"…\"")))
    };
    let algorithm = word(entry, "algorithm");
    let key = match (algorithm, secret(entry, "secret"), text(entry, "public_key")) {
        (JwtAlgorithm::Hs256, Some(secret), None) => IssuerKey::Shared(secret),
        (JwtAlgorithm::Rs256 | JwtAlgorithm::Es256, None, Some(file)) => {
            IssuerKey::Public(PathBuf::from(file))
        }
        (JwtAlgorithm::Hs256, ..) => {
            return Err(missing(
                "hs256 needs a shared secret and no public key",
                "add secret = \"file:/path\"",
            ));
        }
        (JwtAlgorithm::Rs256 | JwtAlgorithm::Es256, ..) => {
            return Err(missing(
                "this algorithm needs a public key and no secret",
                "add public_key = \"/path.pem\"",
            ));
        }
    };
    Ok(IssuerSettings {
        name: name.to_owned(),
        issuer: required("issuer")?,
        audience: required("audience")?,
        algorithm,
        key,
        role_claim: required("role_claim")?,
    })
}
