//! Statements on the partitions of `outbox_event`. Their names cannot be bound; they are a word of ours and a number.

use crate::outbox::Partition;
use crate::statement::{One, statements};
use sqlx::AssertSqlSafe;
use tidemill_domain::outbox::partition::Range;

/// The advisory lock for making and dropping partitions: `tide` and `outb`, as numbers.
const KEEPER: i64 = 0x7469_6465_6f75_7462;

statements! {
    /// Until the transaction ends; false if another process has it.
    fn outbox_keeper_lock() -> One<bool> {
        postgres {
            bind(KEEPER)
            "select pg_try_advisory_xact_lock($1)"
        }
        sqlite |_connection| {
            // The one writer excludes all others.
            Ok(true)
        }
    }

    /// A transaction that waits for a table lock blocks all that come after it. So wait for less than PostgreSQL's
    /// deadlock timeout.
    fn outbox_hurry() -> () {
        postgres {
            "set local lock_timeout = '500ms'"
        }
        // There is no lock to wait for.
        sqlite { nothing }
    }

    /// By range; the default partition is last. Empty on SQLite.
    pub fn Outbox::partitions() -> Vec<Partition> {
        postgres {
            r"select c.relname::text as name, bound.ids[1]::bigint as from_id, bound.ids[2]::bigint as to_id,
                     nullif(c.reltuples, -1)::bigint as rows, pg_total_relation_size(c.oid) as bytes
              from pg_inherits i
              join pg_class c on c.oid = i.inhrelid
              cross join lateral (
                  select regexp_match(
                      pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \(''?(\d+)''?\) TO \(''?(\d+)''?\)$'
                  ) as ids
              ) as bound
              where i.inhparent = 'outbox_event'::regclass
              order by from_id nulls last, name"
        }
        sqlite { nothing }
    }

    fn outbox_last_id() -> One<i64> {
        postgres {
            "select coalesce(pg_sequence_last_value(pg_get_serial_sequence('outbox_event', 'id')::regclass), 0)"
        }
        sqlite {
            "select coalesce(max(seq), 0) from sqlite_sequence where name = 'outbox_event'"
        }
    }

    fn outbox_highest_in_default() -> One<Option<i64>> {
        postgres {
            "select max(id) from outbox_event_default"
        }
        sqlite { nothing }
    }

    /// Created separately and then attached: `create table … partition of` would wait for all writers. Identity is not
    /// copied, because a partition uses that of its parent.
    fn outbox_partition_create(range: Range) -> () {
        postgres |connection| {
            let Range { from, to } = range;
            let texts = [
                format!(
                    "create table outbox_event_p{from} (
                         like outbox_event including defaults including constraints including generated including indexes
                         including storage
                     )"
                ),
                format!(
                    "alter table outbox_event attach partition outbox_event_p{from} for values from ({from}) to ({to})"
                ),
            ];
            for text in texts {
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
            }
            Ok(())
        }
        sqlite { nothing }
    }

    /// Counted up to a limit.
    fn outbox_default_count(limit: i64) -> One<i64> {
        postgres {
            "select count(*) from (select from outbox_event_default limit $1) as counted"
        }
        sqlite { nothing }
    }
}
