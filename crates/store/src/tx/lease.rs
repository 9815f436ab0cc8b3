//! Statements on leases.

use super::{Answer, Connection, Tx};
use crate::codec::{DbId, DbTime};
use crate::row::LeaseRow;
use crate::{postgres, sqlite};
use tidemill_domain::lease::{Fence, LeaseKey};

impl Tx {
    pub(crate) async fn lease_insert_free(&mut self, key: &LeaseKey) -> Answer<()> {
        on_either!(self, lease::insert_free(key))
    }

    pub(crate) async fn lease_insert_free_all(&mut self, keys: &[LeaseKey]) -> Answer<()> {
        on_either!(self, lease::insert_free_all(keys))
    }

    pub(crate) async fn lease_lock_all(&mut self, keys: &[LeaseKey]) -> Answer<Vec<LeaseRow>> {
        on_either!(self, lease::lock_all(keys))
    }

    pub(crate) async fn lease_save_held_all(
        &mut self,
        held: &[(LeaseKey, Fence)],
        now: DbTime,
    ) -> Answer<()> {
        on_either!(self, lease::save_held_all(held, now))
    }

    pub(crate) async fn lease_lock(&mut self, key: &LeaseKey) -> Answer<Option<LeaseRow>> {
        on_either!(self, lease::lock(key))
    }

    pub(crate) async fn lease_find(&mut self, key: &LeaseKey) -> Answer<Option<LeaseRow>> {
        on_either!(self, lease::find(key))
    }

    pub(crate) async fn lease_save_held(
        &mut self,
        key: &LeaseKey,
        fence: Fence,
        until: Option<DbTime>,
        now: DbTime,
    ) -> Answer<()> {
        on_either!(self, lease::save_held(key, fence, until, now))
    }

    pub(crate) async fn lease_lock_free(&mut self, keys: &[&LeaseKey]) -> Answer<Vec<(String, String)>> {
        on_either!(self, lease::lock_free(keys))
    }

    pub(crate) async fn lease_renew(
        &mut self,
        renewals: &[Renewal<'_>],
        now: DbTime,
    ) -> Answer<Vec<(String, String)>> {
        on_either!(self, lease::renew(renewals, now))
    }

    pub(crate) async fn lease_release(&mut self, key: &LeaseKey, fence: Fence) -> Answer<u64> {
        on_either!(self, lease::release(key, fence))
    }

    pub(crate) async fn lease_forget(&mut self, key: &LeaseKey, fence: Fence) -> Answer<u64> {
        on_either!(self, lease::forget(key, fence))
    }

    pub(crate) async fn lease_forget_free(&mut self, key: &LeaseKey) -> Answer<()> {
        on_either!(self, lease::forget_free(key))
    }

    pub(crate) async fn lease_release_all(&mut self, owner: DbId) -> Answer<Vec<String>> {
        on_either!(self, lease::release_all(owner))
    }

    pub(crate) async fn lease_confirm(&mut self, key: &LeaseKey, fence: Fence) -> Answer<bool> {
        on_either!(self, lease::confirm(key, fence))
    }

    pub(crate) async fn lease_expire(&mut self, now: DbTime, limit: i64) -> Answer<Vec<LeaseRow>> {
        on_either!(self, lease::expire(now, limit))
    }

    pub(crate) async fn lease_owned_by(&mut self, owner: DbId) -> Answer<Vec<LeaseRow>> {
        on_either!(self, lease::owned_by(owner))
    }

    pub(crate) async fn lease_list(&mut self, is_free: bool, limit: i64) -> Answer<Vec<LeaseRow>> {
        on_either!(self, lease::list(is_free, limit))
    }
}

/// One lease to be renewed, until when if it still has its fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal<'a> {
    pub(crate) key: &'a LeaseKey,
    pub(crate) fence: Fence,
    pub(crate) until: DbTime,
}
