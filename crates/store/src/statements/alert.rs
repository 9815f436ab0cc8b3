//! Statements on `tidemill_alert`, `tidemill_alert_silence` and `tidemill_alert_delivery`.

use crate::alert::delivery::{Delivery, DeliveryRecord, columns};
use crate::alert::{AlertRecord, Judgement, Judging, LockedAlert, instants};
use crate::statement::{One, statements};
use tidemill_domain::alert::delivery::DeliveryState;
use tidemill_domain::alert::{Notice, Silence, Subject};
use tidemill_domain::time::Timestamp;

statements! {
    fn alert_lock(rule: &str, subject: &str) -> Option<LockedAlert> {
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value from tidemill_alert
         where rule = $1 and subject = $2 {for update}"
    }

    fn alert_save(judging: &Judging<'_>, judgement: &Judgement, announced_at: Option<Timestamp>) -> () {
        bind(
            judging.rule, judging.subject.as_str(), judgement.after.as_str(), instants(judgement.after)[0],
            instants(judgement.after)[1], instants(judgement.after)[2], announced_at, judgement.value,
            judging.severity.as_str(), judgement.at,
        )
        "insert into tidemill_alert
             (rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on conflict (rule, subject) do update
         set state = excluded.state, since = excluded.since, fired_at = excluded.fired_at,
             resolved_at = excluded.resolved_at, announced_at = excluded.announced_at,
             value = excluded.value, severity = excluded.severity, updated_at = excluded.updated_at"
    }

    /// Breached alerts, and alerts whose end was not announced.
    fn alert_open(limit: u32) -> Vec<AlertRecord> {
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at
         from tidemill_alert where state in ('pending', 'firing') or announced_at is not null
         order by rule, subject limit $1"
    }

    /// Firing first, then pending, then by the latest change.
    fn alert_list(limit: u32) -> Vec<AlertRecord> {
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at
         from tidemill_alert order by state <> 'firing', state <> 'pending', updated_at desc, rule, subject
         limit $1"
    }

    /// Deletes alerts that ended long ago and whose end was announced.
    fn alert_prune(updated_before: Timestamp, limit: u32) -> u64 {
        "delete from tidemill_alert
         where (rule, subject) in (
             select rule, subject
             from tidemill_alert
             where state in ('inactive', 'resolved')
               and announced_at is null
               and updated_at < $1
             limit $2
         )"
    }

    fn alert_silence_insert(silence: &Silence) -> One<i64> {
        bind(
            &silence.rule, silence.subject.as_ref().map(Subject::as_str), silence.until,
            &silence.reason, &silence.by, silence.created_at,
        )
        "insert into tidemill_alert_silence (rule, subject, until, reason, actor, created_at)
         values ($1, $2, $3, $4, $5, $6) returning id"
    }

    /// Of exactly this rule and subject; returns how many.
    fn alert_silence_end(rule: &str, subject: Option<&str>, now: Timestamp) -> u64 {
        "update tidemill_alert_silence set ended_at = $3
         where rule = $1 and subject {is} $2 and ended_at is null and until > $3"
    }

    fn alert_silence_in_force(now: Timestamp, limit: i64) -> Vec<Silence> {
        "select id, rule, subject, until, reason, actor, created_at, ended_at from tidemill_alert_silence
         where ended_at is null and until > $1 order by until desc, id limit $2"
    }

    /// In force for one alert.
    fn alert_silence_covering(rule: &str, subject: &str, now: Timestamp) -> Vec<Silence> {
        "select id, rule, subject, until, reason, actor, created_at, ended_at from tidemill_alert_silence
         where rule = $1 and (subject is null or subject = $2) and ended_at is null and until > $3"
    }

    fn alert_silence_prune(ended_before: Timestamp, limit: u32) -> u64 {
        "delete from tidemill_alert_silence
         where id in (
             select id
             from tidemill_alert_silence
             where {least}(until, coalesce(ended_at, until)) < $1
             limit $2
         )"
    }

    fn alert_delivery_insert(
        judging: &Judging<'_>, notice: Notice, channel: &str, body: &str, now: Timestamp,
    ) -> () {
        bind(judging.rule, judging.subject.as_str(), notice.as_str(), channel, body, now)
        "insert into tidemill_alert_delivery
             (rule, subject, notice, channel, body, created_at, attempt, run_after)
         values ($1, $2, $3, $4, $5, $6, 0, $6)"
    }

    /// Per alert and channel only the oldest open one: an end must not arrive before its beginning.
    fn alert_delivery_due(now: Timestamp, limit: u32) -> Vec<Delivery> {
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery d
         where delivered_at is null
           and failed_at is null
           and run_after <= $1
           and not exists (
               select 1
               from tidemill_alert_delivery earlier
               where earlier.rule = d.rule
                 and earlier.subject = d.subject
                 and earlier.channel = d.channel
                 and earlier.id < d.id
                 and earlier.delivered_at is null
                 and earlier.failed_at is null
           )
         order by run_after, id limit $2"
    }

    fn alert_delivery_lock(id: i64) -> Option<DeliveryRecord> {
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery where id = $1 {for update}"
    }

    fn alert_delivery_save(id: i64, state: DeliveryState, last_error: Option<&str>) -> () {
        bind(
            id, columns(state).0, columns(state).1, columns(state).2, columns(state).3, last_error,
        )
        "update tidemill_alert_delivery
         set attempt = coalesce($2, attempt), run_after = coalesce($3, run_after),
             delivered_at = coalesce($4, delivered_at), failed_at = coalesce($5, failed_at), last_error = $6
         where id = $1"
    }

    /// Newest first.
    pub fn Alerts::deliveries(limit: u32) -> Vec<DeliveryRecord> {
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery order by id desc limit $1"
    }

    fn alert_delivery_prune(ended_before: Timestamp, limit: u32) -> u64 {
        "delete from tidemill_alert_delivery
         where id in (
             select id
             from tidemill_alert_delivery
             where coalesce(delivered_at, failed_at) < $1
             limit $2
         )"
    }

    fn alert_count_died(since: Timestamp) -> One<i64> {
        "select count(*) from tidemill_process where state = 'dead' and ended_at > $1"
    }

    fn alert_count_live(now: Timestamp) -> One<i64> {
        "select count(*) from tidemill_process where state = 'live' and until > $1"
    }
}
