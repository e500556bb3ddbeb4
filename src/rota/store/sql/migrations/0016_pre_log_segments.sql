-- Long output moves out of `log_chunks` into the object store. A segment is one object with the chunks first_seq to last_seq
-- of an attempt, without gaps from 0 on over all its segments; what is above the last segment is still in `log_chunks`.

create table log_segments (
    id bigint generated always as identity primary key, -- retention walks along it
    task bigint not null,
    attempt smallint not null,
    first_seq integer not null,
    last_seq integer not null,
    size_bytes bigint not null check (size_bytes > 0), -- of the output
    stored_bytes bigint not null check (stored_bytes > 0), -- of the object
    last_at timestamptz not null, -- when its last chunk came
    object_key text not null unique,
    unique (task, attempt, first_seq),
    check (first_seq <= last_seq)
);

-- Attempts whose output has become long: what is to be moved. Whoever looks moves `look_at` on first, so that others leave
-- it alone meanwhile.
create table long_logs (
    task bigint not null,
    attempt smallint not null,
    noted_at timestamptz not null default now(),
    look_at timestamptz not null default now(),
    primary key (task, attempt)
);
create index long_logs_due on long_logs (look_at);

-- Like chunks, segments carry no tenant and are reached through a task the caller can see.
alter table log_segments enable row level security;
create policy own on log_segments to rota_tenant using (exists (select from tasks where tasks.id = log_segments.task));
grant select on log_segments to rota_tenant;
