-- What the brain decides with: more kinds of resource, lanes as data, categories, caps of plans and pools, and the shares
-- a new leader starts from.

alter table shapes add column iops bigint not null default 0,
    add column gpu_milli integer not null default 0, -- a fraction of one device
    add column bandwidth_kbit bigint not null default 0;
drop index shapes_once;
create unique index shapes_once on shapes (cpu_milli, memory_bytes, disk_bytes, gpus, ports, iops, gpu_milli,
    bandwidth_kbit, custom, require);

-- `rank` is the lane's number, which queue rows carry; lanes of one level are served together. A gated lane runs only
-- while the pool is below its peak mark. Tasks of a lane that promotes become urgent when their tolerance runs out.
alter table lanes add column level smallint not null default 1,
    add column gated boolean not null default false,
    add column promotes boolean not null default true;
update lanes set level = case name when 'urgent' then 0 when 'off-peak' then 2 else 1 end, gated = name = 'off-peak';

alter table plans add column running_tasks integer check (running_tasks > 0),
    add column urgent_percent smallint not null default 50 check (urgent_percent between 0 and 100);

alter table pools add column peak_percent smallint not null default 80 check (peak_percent between 1 and 100),
    add column urgent_kept_percent smallint not null default 10 check (urgent_kept_percent between 0 and 90),
    add column running_tasks integer check (running_tasks > 0);

alter table tiers add column iops bigint not null default 0, add column gpus integer not null default 0,
    add column bandwidth_kbit bigint not null default 0;

create table categories (
    name text primary key check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    tolerance_ms bigint check (tolerance_ms >= 0),
    lane text,
    cap_ms bigint check (cap_ms > 0),
    isolation text
);
grant select on categories, tiers to rota_tenant;

alter table tasks add column preemptible boolean not null default false,
    add column category text,
    add column unplaceable_waits boolean not null default false; -- kept although no present node could ever hold it

alter table queue add column preemptible boolean not null default false,
    add column avoid_node integer; -- where its last attempt failed

-- Resource-time a tenant has been charged in a pool, so that a new leader is as fair as the last one.
create table shares (
    pool smallint not null,
    tenant integer not null,
    charged double precision not null,
    saved_at timestamptz not null default now(),
    primary key (pool, tenant)
);
