-- When a lease was last granted or renewed: its `until` minus this is its length. If this lies ahead of the clock, the
-- clock has gone back, and the lease is shortened. It is null in rows that an older program wrote.
alter table tidemill_lease add column renewed_at timestamptz;

alter table tidemill_outbox_relay add column renewed_at timestamptz;

alter table tidemill_pool_ticket add column heard_at timestamptz;

alter table render_queue add column if not exists lock_renewed_at timestamptz;
