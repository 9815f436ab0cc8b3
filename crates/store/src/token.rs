//! API tokens and the browser sessions opened with them.

use crate::codec::DbTime;
use crate::error::Result;
use crate::statement::{Stored, statements, stored};
use crate::tx::Tokens;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tidemill_domain::access::{self, SESSION_IDLE_MAX, Token};
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::time::Timestamp;

/// The precision of "last used".
const TOUCH_EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewToken {
    pub name: String,
    pub role: Role,
    /// Objects it is limited to; empty for all.
    pub scopes: Vec<String>,
    /// `None` for ever.
    pub valid_for: Option<Duration>,
}

stored! {
    /// Everything but its secret.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct TokenRecord in TOKEN |row| {
        pub id: String,
        pub name: String,
        pub role: Role,
        /// Objects it is limited to; empty for all.
        pub scopes: Vec<String> => scopes(&row.get::<String>("scopes")?),
        pub created_at: Timestamp,
        pub created_by: String,
        pub expires_at: Option<Timestamp>,
        /// To the minute.
        pub last_used_at: Option<Timestamp>,
        pub revoked_at: Option<Timestamp>,
    }
}

const TOKEN: (&str, &str) = ("tidemill_token", "id");

fn scopes(listed: &str) -> Vec<String> {
    listed.split(',').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
}

impl TokenRecord {
    pub fn is_valid(&self, now: Timestamp) -> bool {
        access::is_token_valid(self.expires_at, self.revoked_at, now)
    }

    /// Whether "last used" is out of date.
    pub fn is_touch_due(&self, now: Timestamp) -> bool {
        self.last_used_at.is_none_or(|used| used <= now.minus(TOUCH_EVERY))
    }
}

stored! {
    /// With the hash of its secret.
    pub(crate) struct TokenRow in TOKEN |row| {
        record: TokenRecord => Stored::from_columns(row)?,
        secret_hash: Vec<u8>,
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRecord {
    pub token: TokenRecord,
    /// To the minute.
    pub seen_at: Timestamp,
}

impl SessionRecord {
    /// Whether "last used" is out of date.
    pub fn is_touch_due(&self, now: Timestamp) -> bool {
        self.seen_at <= now.minus(TOUCH_EVERY)
    }
}

/// The secret has 256 random bits, so it needs no slow hash.
fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// In constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

impl Tokens<'_> {
    #[crate::boxed]
    pub async fn create(&mut self, token: &Token, new: &NewToken, actor: &Actor) -> Result<TokenRecord> {
        let now = self.now().await?;
        let record = TokenRecord {
            id: token.id().to_owned(),
            name: new.name.clone(),
            role: new.role,
            scopes: new.scopes.clone(),
            created_at: now,
            created_by: actor.name.clone(),
            expires_at: new.valid_for.map(|term| now.plus(term)),
            last_used_at: None,
            revoked_at: None,
        };
        self.token_insert(&record, &hash(token.secret())).await?;
        let object = format!("token/{}", record.id);
        let entry = AuditEntry::new(actor.clone(), "token.create", &object).from_to("", new.role.as_str());
        self.audit_insert(&entry, now).await?;
        Ok(record)
    }

    /// The token's record, if its secret is right and it is valid now.
    pub async fn authenticate(&mut self, token: &Token) -> Result<Option<TokenRecord>> {
        let Some(TokenRow { record, secret_hash }) = self.token_by_id(token.id()).await? else {
            return Ok(None);
        };
        let now = self.now().await?;
        Ok((is_same(&secret_hash, &hash(token.secret())) && record.is_valid(now)).then_some(record))
    }

    /// Revokes a token and ends its sessions; false if there was nothing to revoke.
    #[crate::boxed]
    pub async fn revoke(&mut self, id: &str, actor: &Actor) -> Result<bool> {
        let now = self.now().await?;
        if self.token_revoke(id, now).await? == 0 {
            return Ok(false);
        }
        self.session_delete_of_token(id).await?;
        let entry = AuditEntry::new(actor.clone(), "token.delete", &format!("token/{id}"))
            .from_to("valid", "revoked");
        self.audit_insert(&entry, now).await?;
        Ok(true)
    }

    /// `secret` is a random text that only the browser gets.
    #[crate::boxed]
    pub async fn open_session(&mut self, secret: &str, token: &TokenRecord) -> Result<()> {
        let now = self.now().await?;
        // Delete ended sessions on the way.
        self.session_prune(now, now.minus(SESSION_IDLE_MAX)).await?;
        let ends_at = access::session_end(token.expires_at, now);
        self.session_insert(&hash(secret), &token.id, now, ends_at).await?;
        let actor = Actor { name: token.name.clone(), role: token.role, request_id: None };
        let entry = AuditEntry::new(actor, "session.open", &format!("token/{}", token.id));
        self.audit_insert(&entry, now).await?;
        Ok(())
    }

    /// A session, if it and its token are valid now.
    #[crate::boxed]
    pub async fn session(&mut self, secret: &str) -> Result<Option<SessionRecord>> {
        let found = self.session_by_hash(&hash(secret)).await?;
        let Some((token_id, DbTime(seen_at), DbTime(ends_at))) = found else { return Ok(None) };
        let Some(TokenRow { record: token, .. }) = self.token_by_id(&token_id).await? else {
            return Ok(None);
        };
        let now = self.now().await?;
        let is_valid = access::is_session_open(seen_at, ends_at, now) && token.is_valid(now);
        Ok(is_valid.then_some(SessionRecord { token, seen_at }))
    }
}

statements! {
    fn token_insert(token: &TokenRecord, secret_hash: &[u8]) -> () {
        bind(
            &token.id, &token.name, token.role.as_str(), token.scopes.join(","), secret_hash,
            token.created_at, &token.created_by, token.expires_at,
        )
        "insert into tidemill_token (id, name, role, scopes, secret_hash, created_at, created_by, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)"
    }

    fn token_by_id(id: &str) -> Option<TokenRow> {
        "select id, name, role, scopes, secret_hash, created_at, created_by, expires_at, last_used_at, revoked_at
         from tidemill_token where id = $1"
    }

    /// Newest first.
    pub fn Tokens::list(limit: u32) -> Vec<TokenRecord> {
        "select id, name, role, scopes, created_at, created_by, expires_at, last_used_at, revoked_at
         from tidemill_token order by created_at desc, id limit $1"
    }

    /// At most one write per minute, so that a busy caller does not cost a write per request.
    pub fn Tokens::touch(id: &str) at now -> () {
        bind(id, now, now.minus(TOUCH_EVERY))
        "update tidemill_token set last_used_at = $2
         where id = $1 and (last_used_at is null or last_used_at < $3)"
    }

    /// Zero if there is no such token, or it was revoked before.
    fn token_revoke(id: &str, now: Timestamp) -> u64 {
        "update tidemill_token set revoked_at = $2 where id = $1 and revoked_at is null"
    }

    fn session_insert(secret_hash: &[u8], token_id: &str, now: Timestamp, ends_at: Timestamp) -> () {
        "insert into tidemill_session (secret_hash, token_id, created_at, seen_at, ends_at)
         values ($1, $2, $3, $3, $4)"
    }

    /// Its token, when it was last used, and when it ends.
    fn session_by_hash(hash: &[u8]) -> Option<(String, DbTime, DbTime)> {
        "select token_id, seen_at, ends_at from tidemill_session where secret_hash = $1"
    }

    /// At most one write per minute.
    pub fn Tokens::touch_session(secret: &str) at now -> () {
        bind(hash(secret), now, now.minus(TOUCH_EVERY))
        "update tidemill_session set seen_at = $2 where secret_hash = $1 and seen_at < $3"
    }

    pub fn Tokens::close_session(secret: &str) -> bool {
        bind(hash(secret))
        "delete from tidemill_session where secret_hash = $1"
    }

    fn session_delete_of_token(token_id: &str) -> u64 {
        "delete from tidemill_session where token_id = $1"
    }

    fn session_prune(ended_before: Timestamp, not_seen_since: Timestamp) -> u64 {
        "delete from tidemill_session where ends_at < $1 or seen_at < $2"
    }
}
