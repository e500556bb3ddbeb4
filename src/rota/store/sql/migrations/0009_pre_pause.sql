-- Tasks that their owners hold back. A running one is asked to stop first (`pause_requested`, read again by its
-- settlement as `cancel_requested` is); one that is held back remembers what it was and since when.

alter table queue add column pause_requested boolean not null default false,
    add column paused_state smallint check (paused_state between 1 and 3), -- what it goes back to
    add column paused_at timestamptz;
create index queue_pausing on queue (pool) where pause_requested;
