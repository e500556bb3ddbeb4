-- Plans limit how many schedules, webhooks, tokens, secrets and graphs a tenant has, and the bytes it stores; null: unlimited.
-- The plan `unlimited` keeps the limits that were part of the program.
alter table plans
    add column schedules integer check (schedules > 0),
    add column webhooks integer check (webhooks > 0),
    add column tokens integer check (tokens > 0),
    add column secrets integer check (secrets > 0),
    add column graphs integer check (graphs > 0);
update plans set schedules = given.schedules, webhooks = given.webhooks, tokens = given.tokens, secrets = given.secrets,
    graphs = given.graphs, storage_bytes = coalesce(plans.storage_bytes, given.storage_bytes)
from (values
    ('free', 10, 5, 10, 20, 1000, 1000000000),
    ('standard', 200, 20, 100, 200, 50000, 100000000000),
    ('business', 5000, 100, 1000, 1000, 1000000, 10000000000000),
    ('unlimited', 10000, 100, null, 1000, null, null)
) as given (name, schedules, webhooks, tokens, secrets, graphs, storage_bytes)
where plans.name = given.name;

-- How many graphs and arrays of a tenant are stored, without those that its schedules made. Counted with the rows, so that
-- admission need not count them. An older server node does not count: the number may be too small until these are gone.
create table graph_counts (
    tenant integer primary key,
    graphs bigint not null
);
insert into graph_counts select tenant, count(*) from graphs where schedule is null group by tenant;
alter table graph_counts enable row level security;
create policy own on graph_counts to rota_tenant using (tenant = current_tenant());
grant select on graph_counts to rota_tenant;

create index tokens_of_tenant on tokens (tenant) where revoked_at is null;
-- The bytes of a tenant are summed from the indexes alone.
create index artifacts_sizes on artifacts (tenant) include (size_bytes);
create index attempt_objects_sizes on attempt_objects (tenant) include (size_bytes) where object_key is not null;
