//! Statements on what people see of relays.

use crate::codec::DbTime;
use crate::row::outbox::detail::RelayDetailRow;
use crate::statement::statements;

statements! {
    /// Those whose lease is good, the eldest first.
    fn outbox_relay_details(now: DbTime) -> Vec<RelayDetailRow> {
        "select r.id, r.process, r.name, r.host, r.pid, r.sink, r.instance{::bigint} as instance, r.total{::bigint} as total,
                r.joined_at, r.until, r.published, r.polls, r.empty_polls, r.queries, count(s.slot) as slots
         from tidemill_outbox_relay r
         left join tidemill_outbox_slot s on s.owner = r.id
         where r.ended_at is null and r.until > $1
         group by r.id
         order by r.joined_at, r.id"
    }
}
