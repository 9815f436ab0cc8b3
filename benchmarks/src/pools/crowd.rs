//! Many live leases over many pools.

use super::report::Report;
use super::{UNITS, acquire_and_release, create};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::pool::command::{Acquire, Command, Part};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::{Class, Holder, PoolName};
use tidemill_domain::time::Clock;
use tidemill_engine::pool::{PoolOptions, Pools};
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_store::Store;
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};

/// The number of measured decisions.
const DECISIONS: u32 = 500;

/// Leases that one pass creates.
const AT_ONCE: u32 = 1_000;

pub(super) async fn measure(store: &Store, pools: u32, leases: u32, report: &mut Report) -> Result<()> {
    let each = leases.div_ceil(pools);
    let mut names = BTreeSet::new();
    for index in 0..pools {
        let name = create(store, &format!("crowd-{index}"), (each + 1_000) * UNITS).await?;
        fill(store, &name, each).await?;
        names.insert(name);
        if (index + 1) % 50 == 0 {
            eprintln!("{} of {pools} pools have their leases", index + 1);
        }
    }
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    store.pool_refresh(&mut PoolCache::default(), &names).await?;
    report.restart = clock.monotonic().since(begin);
    report.leases = each * pools;
    report.pools = pools;
    let handle = Pools::start(store.clone(), PoolOptions::default());
    let mut took = Vec::new();
    for index in 0..DECISIONS {
        let name = names.iter().nth((index * 7 % pools) as usize).context("no such pool")?;
        let begin = clock.monotonic();
        acquire_and_release(&handle, name, &format!("one-{index}")).await?;
        took.push(clock.monotonic().since(begin) / 2);
    }
    took.sort();
    report.decision = took.get(took.len() / 2).copied().context("nothing was measured")?;
    Ok(())
}

async fn fill(store: &Store, pool: &PoolName, leases: u32) -> Result<()> {
    let mut cache = PoolCache::default();
    let pools = BTreeSet::from([pool.clone()]);
    for first in (0..leases).step_by(AT_ONCE as usize) {
        let mut commands = Vec::new();
        for index in first..leases.min(first + AT_ONCE) {
            let ticket = SystemIds.ticket();
            let parallel = NonZeroU32::new(UNITS);
            let part = Part { pool: pool.clone(), ticket, parallel, sessions: None, least: None };
            commands.push(Command::Acquire(Box::new(Acquire {
                request: ticket,
                parts: vec![part],
                holder: Holder::run("crowd", &index.to_string())?,
                class: Class::Normal,
                table: "SALES_ORDER".to_owned(),
                hint: None,
                lease_for: None,
                deadline: None,
                stays: Duration::ZERO,
                call: None,
            })));
        }
        let request =
            PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
        store.pool_pass(&mut cache, &request).await?;
    }
    Ok(())
}
