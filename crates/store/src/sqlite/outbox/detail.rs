//! Statements on what people see of relays.

use crate::codec::DbTime;
use crate::row::outbox::detail::RelayDetailRow;
use sqlx::SqliteConnection;

/// Those whose lease is good, the eldest first.
pub(crate) async fn relays(
    connection: &mut SqliteConnection,
    now: DbTime,
) -> Result<Vec<RelayDetailRow>, sqlx::Error> {
    sqlx::query_as(
        "select r.id, r.process, r.name, r.host, r.pid, r.sink, r.instance, r.total,
                r.joined_at, r.until, r.published, r.polls, r.empty_polls, r.queries, count(s.slot) as slots
         from tidemill_outbox_relay r
         left join tidemill_outbox_slot s on s.owner = r.id
         where r.ended_at is null and r.until > $1
         group by r.id
         order by r.joined_at, r.id",
    )
    .bind(now)
    .fetch_all(connection)
    .await
}
