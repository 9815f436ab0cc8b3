//! What has to hold after every pass: the auditor follows the log with code of its own, from where it stopped the last
//! time, and compares what follows from it with the rows, read by statements of its own in one snapshot.

use std::collections::BTreeMap;
use tidemill_domain::pool::event::Event;
use tidemill_domain::pool::{PoolName, State, Ticket, TicketId};
use tidemill_store::Tx;

/// What is known of each pool.
pub(super) struct Auditor {
    pools: BTreeMap<PoolName, Walk>,
}

/// How far the log of a pool was followed, and what follows from it.
#[derive(Default)]
struct Walk {
    version: Option<i64>,
    seq: i32,
    limit: u64,
    tickets: BTreeMap<TicketId, Held>,
}

struct Held {
    ticket: Ticket,
    units: u64,
}

type LogRow = (i64, i32, String);
type LiveRow = (String, String, i64, String);
type CountRow = (i64, i64, i64, i64, i64);

impl Auditor {
    pub(super) fn new(pools: Vec<PoolName>) -> Self {
        Self { pools: pools.into_iter().map(|pool| (pool, Walk::default())).collect() }
    }

    /// Whether all is well, in a transaction that reads from one snapshot, which is no older than the last.
    pub(super) async fn check(&mut self, tx: &mut Tx) -> Result<(), String> {
        for (pool, walk) in &mut self.pools {
            let after = walk.version.unwrap_or(-1);
            for (version, seq, event) in log_after(tx, pool, after).await {
                let event: Event =
                    serde_json::from_str(&event).map_err(|error| format!("{pool}: {error}"))?;
                walk.step(version, seq, &event).map_err(|why| format!("{pool} {version}/{seq}: {why}"))?;
            }
            let (live, count) = (live(tx, pool).await, count(tx, pool).await);
            walk.compare(&live, count).map_err(|why| format!("{pool}: {why}"))?;
        }
        Ok(())
    }
}

impl Walk {
    fn step(&mut self, version: i64, seq: i32, event: &Event) -> Result<(), String> {
        let follows = match self.version {
            None => seq == 0,
            Some(last) if last == version => seq == self.seq + 1,
            Some(last) => last + 1 == version && seq == 0,
        };
        if !follows {
            return Err(format!("it follows upon {:?}/{}", self.version, self.seq));
        }
        (self.version, self.seq) = (Some(version), seq);
        let before = self.usage();
        match event {
            Event::Configured { settings, .. } => {
                self.limit = u64::from(settings.max_units) * u64::from(settings.threshold_percent) / 100;
            }
            Event::Enqueued { ticket } => {
                if self.tickets.values().any(|held| held.ticket.holder == ticket.holder) {
                    return Err(format!("{} has two tickets", ticket.holder));
                }
                self.tickets.insert(ticket.id, Held { ticket: (**ticket).clone(), units: 0 });
            }
            Event::Granted { ticket, parallel, .. } => {
                let held = self.held(*ticket)?;
                if held.units > 0 {
                    return Err("it had units already".to_owned());
                }
                held.units = held.ticket.weight.units(*parallel);
            }
            Event::Resized { ticket, parallel, .. } => {
                let held = self.held(*ticket)?;
                held.units = held.ticket.weight.units(*parallel);
            }
            Event::Ended { ticket, .. } => {
                self.held(*ticket)?;
                self.tickets.remove(ticket);
            }
            Event::Snapshot { tickets, .. } => {
                let is_known = |ticket: &Ticket| {
                    self.tickets.get(&ticket.id).is_some_and(|held| held.units == ticket.units())
                };
                if tickets.len() != self.tickets.len() || !tickets.iter().all(is_known) {
                    return Err("it is another snapshot than the log's".to_owned());
                }
            }
            other => {
                if let Some(ticket) = other.ticket() {
                    self.held(ticket)?;
                }
            }
        }
        let usage = self.usage();
        if usage > before && usage > self.limit {
            return Err(format!("{usage} are in use after {event:?}, of {}", self.limit));
        }
        Ok(())
    }

    fn held(&mut self, ticket: TicketId) -> Result<&mut Held, String> {
        self.tickets.get_mut(&ticket).ok_or_else(|| format!("there is no ticket {ticket}"))
    }

    fn usage(&self) -> u64 {
        self.tickets.values().map(|held| held.units).sum()
    }

    fn compare(&self, live: &[LiveRow], count: CountRow) -> Result<(), String> {
        let (version, usage, active, waiting, suspect) = count;
        if self.version != Some(version) {
            return Err(format!("the log ends with {:?}, and the pool is at {version}", self.version));
        }
        if live.len() != self.tickets.len() {
            return Err(format!("{} rows are live, and {} by the log", live.len(), self.tickets.len()));
        }
        let mut holders: Vec<&str> = live.iter().map(|(.., holder)| holder.as_str()).collect();
        holders.sort_unstable();
        if let Some(twice) = holders.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("{} has two live rows", twice[0]));
        }
        for (id, state, units, _) in live {
            let id: TicketId = id.parse().map_err(|_| format!("{id} is no id"))?;
            let held = self.tickets.get(&id).ok_or_else(|| format!("the row {id} is not in the log"))?;
            let counts = state.parse::<State>().is_ok_and(State::counts);
            if counts != (held.units > 0) || u64::try_from(*units) != Ok(held.units) {
                return Err(format!("{id} is {state} with {units} units, and has {} by the log", held.units));
            }
        }
        let states =
            |wanted: &[&str]| live.iter().filter(|row| wanted.contains(&row.1.as_str())).count() as i64;
        let counted = (
            i64::try_from(self.usage()).unwrap_or(i64::MAX),
            states(&["granted", "running", "suspect"]),
            states(&["waiting"]),
            states(&["suspect"]),
        );
        if (usage, active, waiting, suspect) != counted {
            return Err(format!("the pool says {count:?}, and its rows {counted:?}"));
        }
        Ok(())
    }
}

/// Runs one of our own statements on whichever database it is.
macro_rules! fetch {
    ($tx:ident, $fetch:ident, $type:ty, $sql:literal, $($value:expr),+) => {{
        let rows = match $tx.postgres() {
            Some(connection) => sqlx::query_as::<_, $type>($sql)$(.bind($value))+.$fetch(connection).await,
            None => {
                let connection = $tx.sqlite().unwrap();
                sqlx::query_as::<_, $type>($sql)$(.bind($value))+.$fetch(connection).await
            }
        };
        rows.unwrap()
    }};
}

async fn log_after(tx: &mut Tx, pool: &PoolName, version: i64) -> Vec<LogRow> {
    fetch!(
        tx,
        fetch_all,
        LogRow,
        "select version, seq, event from tidemill_pool_log where pool = $1 and version > $2 order by version, seq",
        pool.as_str(),
        version
    )
}

async fn live(tx: &mut Tx, pool: &PoolName) -> Vec<LiveRow> {
    fetch!(
        tx,
        fetch_all,
        LiveRow,
        "select cast(id as text), state, units, dag_id || '/' || run_id || '/' || task
         from tidemill_pool_ticket
         where pool = $1 and state in ('waiting', 'granted', 'running', 'suspect')",
        pool.as_str()
    )
}

async fn count(tx: &mut Tx, pool: &PoolName) -> CountRow {
    fetch!(
        tx,
        fetch_one,
        CountRow,
        "select version, usage, active, waiting, suspect from tidemill_pool where name = $1",
        pool.as_str()
    )
}
