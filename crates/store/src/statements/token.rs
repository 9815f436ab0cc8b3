//! Statements on `tidemill_token` and `tidemill_session`.

use crate::codec::DbTime;
use crate::statement::statements;
use crate::token::{TokenRecord, TokenRow};
use tidemill_domain::time::Timestamp;

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
    fn token_touch(id: &str, now: Timestamp, not_since: Timestamp) -> () {
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
    fn session_touch(hash: &[u8], now: Timestamp, not_since: Timestamp) -> () {
        "update tidemill_session set seen_at = $2 where secret_hash = $1 and seen_at < $3"
    }

    fn session_delete(hash: &[u8]) -> u64 {
        "delete from tidemill_session where secret_hash = $1"
    }

    fn session_delete_of_token(token_id: &str) -> u64 {
        "delete from tidemill_session where token_id = $1"
    }

    fn session_prune(ended_before: Timestamp, not_seen_since: Timestamp) -> u64 {
        "delete from tidemill_session where ends_at < $1 or seen_at < $2"
    }
}
