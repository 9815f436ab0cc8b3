-- API tokens: who may call us. Of the secret only its hash is kept.
create table tidemill_token (
    id text primary key,
    name text not null,
    role text not null,
    scopes text not null,
    secret_hash bytea not null,
    created_at timestamptz not null,
    created_by text not null,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz
);

-- Sessions of browsers, each opened with a token and not longer-lived than it.
create table tidemill_session (
    secret_hash bytea primary key,
    token_id text not null references tidemill_token (id),
    created_at timestamptz not null,
    seen_at timestamptz not null,
    ends_at timestamptz not null
);

create index tidemill_session_token on tidemill_session (token_id);

-- Answers of mutations that carried an idempotency key, so that a repeated request gets the same one.
create table tidemill_idempotency (
    caller text not null,
    key text not null,
    fingerprint bytea not null,
    status integer not null,
    body text not null,
    created_at timestamptz not null,
    primary key (caller, key)
);

create index tidemill_idempotency_created on tidemill_idempotency (created_at);
