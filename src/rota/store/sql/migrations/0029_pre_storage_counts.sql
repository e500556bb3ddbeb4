-- The bytes that a tenant stores, counted by triggers, so that an upload need not sum the sizes of all its objects. Rows of
-- several tenants are counted in the order of tenants: two statements can't wait for each other.
create table storage_counts (
    tenant integer primary key,
    bytes bigint not null
);
alter table storage_counts enable row level security;
create policy own on storage_counts to rota_tenant using (tenant = current_tenant());
grant select on storage_counts to rota_tenant;

create function add_to_storage() returns trigger language plpgsql as $$
begin
    insert into storage_counts (tenant, bytes)
    select tenant, sum(size_bytes) from added where object_key is not null group by tenant order by tenant
    on conflict (tenant) do update set bytes = storage_counts.bytes + excluded.bytes;
    return null;
end $$;

create function take_from_storage() returns trigger language plpgsql as $$
begin
    insert into storage_counts (tenant, bytes)
    select tenant, -sum(size_bytes) from removed where object_key is not null group by tenant order by tenant
    on conflict (tenant) do update set bytes = storage_counts.bytes + excluded.bytes;
    return null;
end $$;

create trigger added_to_storage after insert on artifacts
    referencing new table as added for each statement execute function add_to_storage();
create trigger taken_from_storage after delete on artifacts
    referencing old table as removed for each statement execute function take_from_storage();
create trigger added_to_storage after insert on attempt_objects
    referencing new table as added for each statement execute function add_to_storage();
create trigger taken_from_storage after delete on attempt_objects
    referencing old table as removed for each statement execute function take_from_storage();
-- An object of an attempt may be replaced by another of the same name.
create trigger changed_storage_after after update on attempt_objects
    referencing new table as added for each statement execute function add_to_storage();
create trigger changed_storage_before after update on attempt_objects
    referencing old table as removed for each statement execute function take_from_storage();

-- The triggers have locked both tables: nothing is stored between the sum and the first count.
insert into storage_counts (tenant, bytes)
select tenant, sum(size_bytes) from (
    select tenant, size_bytes from artifacts
    union all
    select tenant, size_bytes from attempt_objects where object_key is not null
) stored group by tenant;

drop index artifacts_sizes;
drop index attempt_objects_sizes;
