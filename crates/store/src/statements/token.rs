//! Statements on `tidemill_token`.

use crate::codec::DbTime;
use crate::row::TokenRow;
use crate::statement::statements;

statements! {
    fn token_insert(row: &TokenRow) -> () {
        bind(
            &row.id, &row.name, &row.role, &row.scopes, &row.secret_hash, row.created_at, &row.created_by,
            row.expires_at,
        )
        "insert into tidemill_token (id, name, role, scopes, secret_hash, created_at, created_by, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)"
    }

    fn token_by_id(id: &str) -> Option<TokenRow> {
        "select id, name, role, scopes, secret_hash, created_at, created_by, expires_at, last_used_at, revoked_at
         from tidemill_token
         where id = $1"
    }

    /// The newest first.
    fn token_list(limit: i64) -> Vec<TokenRow> {
        "select id, name, role, scopes, secret_hash, created_at, created_by, expires_at, last_used_at, revoked_at
         from tidemill_token
         order by created_at desc, id
         limit $1"
    }

    /// Notes that it was used; at most once per minute, so that a busy caller does not cost a write per request.
    fn token_touch(id: &str, now: DbTime, not_since: DbTime) -> () {
        "update tidemill_token
         set last_used_at = $2
         where id = $1
           and (last_used_at is null or last_used_at < $3)"
    }

    /// No row: there is no such token, or it was revoked before.
    fn token_revoke(id: &str, now: DbTime) -> u64 {
        "update tidemill_token
         set revoked_at = $2
         where id = $1
           and revoked_at is null"
    }
}
