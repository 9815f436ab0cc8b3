-- Alerts: where each rule stands for each subject; rows come with the first breach. `announced_at` is the
-- `fired_at` of the firing that people were told of last; null when they also heard that it was over.
create table tidemill_alert (
    rule text not null,
    subject text not null,
    state text not null check (state in ('inactive', 'pending', 'firing', 'resolved')),
    since timestamptz,
    fired_at timestamptz,
    resolved_at timestamptz,
    announced_at timestamptz,
    value double precision,
    severity text not null check (severity in ('info', 'warning', 'critical')),
    updated_at timestamptz not null,
    primary key (rule, subject),
    check ((since is not null) = (state in ('pending', 'firing'))),
    check ((fired_at is not null) = (state in ('firing', 'resolved'))),
    check ((resolved_at is not null) = (state = 'resolved'))
) with (fillfactor = 50);

-- Silences: nobody is told for a while. Without a subject, a silence is for every subject of its rule.
create table tidemill_alert_silence (
    id bigint generated always as identity primary key,
    rule text not null,
    subject text,
    until timestamptz not null,
    reason text not null check (reason <> ''),
    actor text not null,
    created_at timestamptz not null,
    ended_at timestamptz
);

create index tidemill_alert_silence_open on tidemill_alert_silence (until) where ended_at is null;

-- Deliveries: one row for each notice and channel, written in the transaction that decides on the notice.
create table tidemill_alert_delivery (
    id bigint generated always as identity primary key,
    rule text not null,
    subject text not null,
    notice text not null check (notice in ('fired', 'resolved')),
    channel text not null,
    body text not null,
    created_at timestamptz not null,
    attempt bigint not null check (attempt >= 0),
    run_after timestamptz not null,
    delivered_at timestamptz,
    failed_at timestamptz,
    last_error text,
    check (delivered_at is null or failed_at is null)
);

-- For the due ones, and for what of the same alert and channel waits before them.
create index tidemill_alert_delivery_open on tidemill_alert_delivery (rule, subject, channel, id)
    where delivered_at is null and failed_at is null;
