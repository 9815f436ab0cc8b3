//! Pools for those who may never need them: the task that decides starts when somebody first asks.

use super::pools::{PoolOptions, Pools};
use std::sync::{Arc, OnceLock};
use tidemill_store::Store;

/// The pools of a database, once they are needed. All clones share one.
#[derive(Clone, Debug)]
pub(crate) struct PoolsOnDemand {
    store: Store,
    pools: Arc<OnceLock<Pools>>,
}

impl PoolsOnDemand {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, pools: Arc::default() }
    }

    pub(crate) fn of(pools: Pools) -> Self {
        Self { store: pools.store().clone(), pools: Arc::new(OnceLock::from(pools)) }
    }

    pub(crate) fn get(&self) -> &Pools {
        self.pools.get_or_init(|| Pools::start(self.store.clone(), PoolOptions::default()))
    }
}
