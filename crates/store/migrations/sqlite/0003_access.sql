-- API tokens: who may call us. Of the secret only its hash is kept.
create table tidemill_token (
    id text primary key,
    name text not null,
    role text not null,
    scopes text not null,
    secret_hash blob not null,
    created_at integer not null,
    created_by text not null,
    expires_at integer,
    last_used_at integer,
    revoked_at integer
) strict;

-- Sessions of browsers, each opened with a token and not longer-lived than it.
create table tidemill_session (
    secret_hash blob primary key,
    token_id text not null references tidemill_token (id),
    created_at integer not null,
    seen_at integer not null,
    ends_at integer not null
) strict;

create index tidemill_session_token on tidemill_session (token_id);

-- Answers of mutations that carried an idempotency key, so that a repeated request gets the same one.
create table tidemill_idempotency (
    caller text not null,
    key text not null,
    fingerprint blob not null,
    status integer not null,
    body text not null,
    created_at integer not null,
    primary key (caller, key)
) strict, without rowid;

create index tidemill_idempotency_created on tidemill_idempotency (created_at);
