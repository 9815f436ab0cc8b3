//! Probes: a program of the operator counts the sessions of silent holders, so that units of dead ones come back, and
//! live ones keep theirs.
//!
//! The program gets the suspect leases as JSON on standard input, and writes the number of sessions of each to standard
//! output. Leases that it leaves out do not change; nor does any if it fails. If the database refuses the program, it
//! writes the error as `refused`, which opens the circuit breaker of the pool.

use super::program::{self, ProgramError};
use super::{LEASE_PAUSE, PoolError, Pools};
use crate::{Leader, Process, Service};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::pool::refusal::reason;
use tidemill_domain::pool::{BreakerChange, PoolName, State, command};
use tidemill_store::pool::TicketRecord;

const SUSPECTS_MOST: u32 = 10_000;

/// A program that counts the sessions of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    pub pool: PoolName,
    /// Program and arguments, run without a shell.
    pub command: Vec<String>,
    /// How often it runs while there are suspect leases.
    pub every: Duration,
    pub timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(
        "its answer is not a JSON object of numbers by lease id, with the text `refused` if the database refused it"
    )]
    NotUnderstood(#[source] serde_json::Error),
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Probes suspect leases on the server that holds the lease, until `process` ends.
pub async fn run(process: Process, pools: Pools, probe: Probe) {
    let key =
        LeaseKey::new("pool_probe", probe.pool.as_str()).expect("the name of a pool is short and plain");
    let mut leader = Leader::new(&process, key, LEASE_PAUSE);
    while let Some(lease) = leader.lease().await {
        lease.while_held(keep(&pools, &probe)).await;
    }
}

async fn keep(pools: &Pools, probe: &Probe) {
    let pool = &probe.pool;
    let mut service = Service::new(format!("the probe of the pool {pool}"), probe.every);
    while service.is_due().await {
        // After a failure leases stay as they are.
        let probed = probe_once(pools, probe).await;
        if let Ok(count @ 1..) = probed {
            tracing::info!("the probe of the pool {pool} told of {count} leases in doubt");
        }
        service.ended(probed.map(drop));
    }
}

/// Probes all suspect leases, if there are any. Returns how many the probe knew.
#[crate::boxed]
pub async fn probe_once(pools: &Pools, probe: &Probe) -> Result<usize, ProbeError> {
    let mut tx = pools.store().read().await.map_err(PoolError::from)?;
    let suspects =
        tx.pools().tickets(&probe.pool, &[State::Suspect], SUSPECTS_MOST).await.map_err(PoolError::from)?;
    tx.rollback().await.map_err(PoolError::from)?;
    if suspects.is_empty() {
        return Ok(0);
    }
    let question = question(&probe.pool, &suspects).to_string();
    let answer = program::run(&probe.command, &[], Some(&question), probe.timeout).await?;
    let (refused, sessions) = read(&answer).map_err(ProbeError::NotUnderstood)?;
    if let Some(error) = refused {
        let (pool, change) = (probe.pool.clone(), BreakerChange::Refused { reason: reason(Some(&error)) });
        pools.submit(command::Command::Breaker { pool, change }).await?;
    }
    let mut told = 0;
    for suspect in suspects {
        let ticket = suspect.ticket.id;
        let Some(doubted_at) = suspect.ticket.doubted_at else { continue };
        if let Some(sessions) = sessions.get(&ticket.to_string()) {
            let (pool, sessions) = (probe.pool.clone(), *sessions);
            pools.submit(command::Command::Probed { pool, ticket, doubted_at, sessions }).await?;
            told += 1;
        }
    }
    Ok(told)
}

/// The error of the database if it refused the program, and sessions by lease id.
fn read(answer: &[u8]) -> Result<(Option<String>, BTreeMap<String, u32>), serde_json::Error> {
    let mut answer: Map<String, Value> = serde_json::from_slice(answer)?;
    let refused = answer.remove("refused").map(serde_json::from_value).transpose()?;
    Ok((refused, serde_json::from_value(Value::Object(answer))?))
}

fn question(pool: &PoolName, suspects: &[TicketRecord]) -> Value {
    let lease = |record: &TicketRecord| {
        let (ticket, holder) = (&record.ticket, &record.ticket.holder);
        json!({
            "lease_id": ticket.id.to_string(),
            "dag_id": holder.dag_id(),
            "dag_run_id": holder.run_id(),
            "task": holder.task(),
            "map_index": holder.map_index(),
            "table_name": ticket.table,
            "parallel": ticket.granted,
            "units": record.units,
            "granted_at": ticket.granted_at.map(|at| at.to_string()),
        })
    };
    json!({ "pool": pool.as_str(), "leases": suspects.iter().map(lease).collect::<Vec<_>>() })
}
