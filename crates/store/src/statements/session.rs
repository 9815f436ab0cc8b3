//! Statements on `tidemill_session`.

use crate::codec::DbTime;
use crate::row::SessionRow;
use crate::statement::statements;

statements! {
    fn session_insert(row: &SessionRow) -> () {
        bind(&row.secret_hash, &row.token_id, row.created_at, row.seen_at, row.ends_at)
        "insert into tidemill_session (secret_hash, token_id, created_at, seen_at, ends_at)
         values ($1, $2, $3, $4, $5)"
    }

    fn session_by_hash(hash: &[u8]) -> Option<SessionRow> {
        "select secret_hash, token_id, created_at, seen_at, ends_at
         from tidemill_session
         where secret_hash = $1"
    }

    /// Notes that it was used; at most once per minute.
    fn session_touch(hash: &[u8], now: DbTime, not_since: DbTime) -> () {
        "update tidemill_session
         set seen_at = $2
         where secret_hash = $1
           and seen_at < $3"
    }

    fn session_delete(hash: &[u8]) -> u64 {
        "delete from tidemill_session where secret_hash = $1"
    }

    /// Those of one token, or those that have ended.
    fn session_delete_of_token(token_id: &str) -> u64 {
        "delete from tidemill_session where token_id = $1"
    }

    fn session_prune(ended_before: DbTime, not_seen_since: DbTime) -> u64 {
        "delete from tidemill_session where ends_at < $1 or seen_at < $2"
    }
}
