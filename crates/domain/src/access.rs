//! Roles, permissions, scopes, and the text form of API tokens. One table says which role has which permission.

use crate::audit::Role;
use crate::time::Timestamp;
use std::fmt;
use std::time::Duration;

crate::words! {
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Permission {
        /// See states, lists and events; no payloads, no configuration.
        View = "view",
        /// Stop, restart, retry, release, silence.
        Operate = "operate",
        /// Tokens, configuration, payloads, and irreversible actions.
        Administer = "administer",
        Work = "work",
        /// Request and release units of a pool.
        Request = "request",
    }
}

/// Roles that an API token can have.
pub const ROLES: [Role; 5] = [Role::Viewer, Role::Operator, Role::Admin, Role::Worker, Role::Requester];

/// Whether `role` has `permission`. Tidemill itself and the local command line need no permission.
pub fn allows(role: Role, permission: Permission) -> bool {
    use Permission::{Operate, Request, View, Work};
    match role {
        Role::Admin => true,
        Role::Operator => matches!(permission, View | Operate),
        Role::Viewer => matches!(permission, View),
        Role::Worker => matches!(permission, Work),
        Role::Requester => matches!(permission, Request),
        Role::Local | Role::System => false,
    }
}

/// Whether an object such as `pool/etl` is in `scopes`: objects, or prefixes that end with `*`. No scopes: no limit.
pub fn in_scope(scopes: &[String], object: &str) -> bool {
    scopes.is_empty()
        || scopes.iter().any(|scope| match scope.strip_suffix('*') {
            Some(beginning) => object.starts_with(beginning),
            None => object == scope,
        })
}

/// Whether `scopes` include everything that `scope` covers, so that their owner may grant it.
pub fn covers(scopes: &[String], scope: &str) -> bool {
    match scope.strip_suffix('*') {
        None => in_scope(scopes, scope),
        Some(beginning) => {
            let mut wider = scopes.iter().filter_map(|own| own.strip_suffix('*'));
            scopes.is_empty() || wider.any(|own| beginning.starts_with(own))
        }
    }
}

pub fn is_token_valid(expires_at: Option<Timestamp>, revoked_at: Option<Timestamp>, now: Timestamp) -> bool {
    revoked_at.is_none() && expires_at.is_none_or(|end| now < end)
}

pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(3600);
pub const SESSION_MAX: Duration = Duration::from_secs(12 * 3600);

/// The latest end of a session that is opened at `now`: never after its token.
pub fn session_end(token_expires_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let latest = now.plus(SESSION_MAX);
    token_expires_at.map_or(latest, |end| end.min(latest))
}

pub fn is_session_open(seen_at: Timestamp, ends_at: Timestamp, now: Timestamp) -> bool {
    now < ends_at && now.since(seen_at) < SESSION_IDLE_MAX
}

pub fn is_token_name(text: &str) -> bool {
    (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

pub const SCOPE_CHARS_MAX: usize = 200;
pub const SCOPES_MAX: usize = 20;

pub fn is_scope(text: &str) -> bool {
    let plain = text.strip_suffix('*').unwrap_or(text);
    (1..=SCOPE_CHARS_MAX).contains(&text.chars().count())
        && plain.contains('/')
        && !plain.contains(['*', ','])
        && !plain.chars().any(char::is_control)
}

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_CHARS: usize = 8;
/// 43 digits of base 62 hold 256 bits.
const SECRET_CHARS: usize = 43;

/// `tm_`, a public id, `_`, and 256 secret bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: String,
    secret: String,
}

crate::getters!(Token { &id: str, &secret: str });

impl Token {
    pub fn from_random(id: &[u8; 16], secret: &[u8; 32]) -> Self {
        Self { id: base62(id, ID_CHARS), secret: base62(secret, SECRET_CHARS) }
    }

    /// The whole token, shown once, to its new owner.
    pub fn expose(&self) -> String {
        format!("tm_{}_{}", self.id, self.secret)
    }

    fn read(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix("tm_")?.split_once('_')?;
        let is_made_of =
            |part: &str, length| part.len() == length && part.bytes().all(|b| ALPHABET.contains(&b));
        let is_token = is_made_of(id, ID_CHARS) && is_made_of(secret, SECRET_CHARS);
        is_token.then(|| Self { id: id.to_owned(), secret: secret.to_owned() })
    }
}

/// Without the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(tm_{}_***)", self.id)
    }
}

crate::newtype::parsed!(Token, Token::read, NotAToken: "not an API token");

/// The last `length` digits of the number in base 62.
fn base62(bytes: &[u8], length: usize) -> String {
    let mut number = bytes.to_vec();
    let mut digits = Vec::with_capacity(length);
    for _ in 0..length {
        let mut rest = 0_u32;
        for byte in &mut number {
            let value = rest * 256 + u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            rest = value % 62;
        }
        digits.push(char::from(ALPHABET[rest as usize]));
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_an_admin_may_everything_and_nobody_outside_may_what_is_not_theirs() {
        for permission in Permission::ALL {
            let who: Vec<Role> = ROLES.into_iter().filter(|role| allows(*role, permission)).collect();
            let expected = match permission {
                Permission::View => vec![Role::Viewer, Role::Operator, Role::Admin],
                Permission::Operate => vec![Role::Operator, Role::Admin],
                Permission::Administer => vec![Role::Admin],
                Permission::Work => vec![Role::Admin, Role::Worker],
                Permission::Request => vec![Role::Admin, Role::Requester],
            };
            assert_eq!(who, expected, "{permission:?}");
            assert!(!allows(Role::System, permission) && !allows(Role::Local, permission));
        }
    }

    #[test]
    fn scopes_are_objects_or_beginnings_of_them() {
        assert!(is_scope("pool/etl") && is_scope("pool/*") && is_scope("job/정산*"));
        for wrong in ["", "*", "pool", "pool/a*b", "pool/a,b", "pool/\n", &"p/".repeat(200)] {
            assert!(!is_scope(wrong), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_session_never_outlives_its_token_or_half_a_day(expiry in prop::option::of(0..200_000_i64), opened in 0..100_000_i64, later in 0..200_000_i64) {
            let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
            let (expires_at, now) = (expiry.map(at), at(opened + later));
            let ends_at = session_end(expires_at, at(opened));
            if is_session_open(now, ends_at, now) {
                prop_assert!(is_token_valid(expires_at, None, now));
                prop_assert!(now.since(at(opened)) < SESSION_MAX);
            }
            prop_assert!(!is_token_valid(expires_at, Some(at(opened)), now));
        }

        #[test]
        fn what_is_handed_on_reaches_no_further(
            own in prop::collection::vec("[ab]/[ab]{0,3}\\*?", 1..4), handed in "[ab]/[ab]{0,3}\\*?", object in "[ab]/[ab]{0,4}",
        ) {
            if covers(&own, &handed) && in_scope(&[handed], &object) {
                prop_assert!(in_scope(&own, &object));
            }
        }

        #[test]
        fn a_token_reads_back_and_hides_its_secret(id: [u8; 16], secret: [u8; 32]) {
            let token = Token::from_random(&id, &secret);
            prop_assert_eq!(&token.expose().parse::<Token>().unwrap(), &token);
            let shown = format!("{token:?}");
            prop_assert!(!shown.contains(token.secret()));
        }

        #[test]
        fn different_secrets_make_different_tokens(one: [u8; 32], other: [u8; 32]) {
            let secret = |bytes| Token::from_random(&[0; 16], bytes).secret().to_owned();
            prop_assert_eq!(secret(&one) == secret(&other), one == other);
        }

        #[test]
        fn any_text_is_a_token_or_not(text in "(tm_)?.{0,60}") {
            let _answer = text.parse::<Token>();
        }
    }

    #[test]
    fn the_id_of_a_token_reads_back() {
        use crate::access::Token;
        let token = Token::from_random(&[7; 16], &[9; 32]);
        assert_eq!(token.expose().parse::<Token>().unwrap().id(), token.id());
    }

    #[test]
    fn a_scope_with_a_star_covers_all_that_begins_with_it() {
        let scopes = ["pool/etl*".to_owned()];

        assert!(in_scope(&scopes, "pool/etl-night") && !in_scope(&scopes, "job/etl"));
        assert!(in_scope(&[], "job/etl"));
        assert!(covers(&scopes, "pool/etl-night*") && !covers(&["pool/etl".to_owned()], "pool/etl*"));
    }
}
