//! Statements on tokens and sessions.

use super::{Answer, Connection, Tx};
use crate::codec::DbTime;
use crate::row::{SessionRow, TokenRow};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn token_insert(&mut self, row: &TokenRow) -> Answer<()> {
        on_either!(self, token::insert(row))
    }

    pub(crate) async fn token_by_id(&mut self, id: &str) -> Answer<Option<TokenRow>> {
        on_either!(self, token::by_id(id))
    }

    pub(crate) async fn token_list(&mut self, limit: i64) -> Answer<Vec<TokenRow>> {
        on_either!(self, token::list(limit))
    }

    pub(crate) async fn token_touch(&mut self, id: &str, now: DbTime, not_since: DbTime) -> Answer<()> {
        on_either!(self, token::touch(id, now, not_since))
    }

    pub(crate) async fn token_revoke(&mut self, id: &str, now: DbTime) -> Answer<u64> {
        on_either!(self, token::revoke(id, now))
    }

    pub(crate) async fn session_insert(&mut self, row: &SessionRow) -> Answer<()> {
        on_either!(self, session::insert(row))
    }

    pub(crate) async fn session_by_hash(&mut self, hash: &[u8]) -> Answer<Option<SessionRow>> {
        on_either!(self, session::by_hash(hash))
    }

    pub(crate) async fn session_touch(&mut self, hash: &[u8], now: DbTime, not_since: DbTime) -> Answer<()> {
        on_either!(self, session::touch(hash, now, not_since))
    }

    pub(crate) async fn session_delete(&mut self, hash: &[u8]) -> Answer<u64> {
        on_either!(self, session::delete(hash))
    }

    pub(crate) async fn session_delete_of_token(&mut self, token_id: &str) -> Answer<u64> {
        on_either!(self, session::delete_of_token(token_id))
    }

    pub(crate) async fn session_prune(
        &mut self,
        ended_before: DbTime,
        not_seen_since: DbTime,
    ) -> Answer<u64> {
        on_either!(self, session::prune(ended_before, not_seen_since))
    }
}
