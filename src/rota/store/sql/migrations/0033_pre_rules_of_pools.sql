-- The version of the operators' rules that a pool's leader decides by: pauses, drains, lanes, plans and limits. Every start
-- locks the row of its pool and names the version that its leader has read, so a change waits for the starts that are under
-- way, and no start that was planned before it is authorised after it. Triggers, because no change may forget it.

alter table pools add column rules bigint not null default 0;
create index tenants_paused on tenants (id) where paused;

create function change_rules_of_all_pools() returns trigger language plpgsql as $$
begin
    perform from pools order by id for no key update; -- in one order: two changes at once must not deadlock
    update pools set rules = rules + 1;
    return null;
end $$;

create function change_rules_of_own_pool() returns trigger language plpgsql as $$
begin
    update pools set rules = rules + 1 where id = new.pool;
    return null;
end $$;

create function change_rules() returns trigger language plpgsql as $$
begin
    new.rules := old.rules + 1;
    return new;
end $$;

create trigger rules_of_tenants after update of plan, paused on tenants
    for each statement execute function change_rules_of_all_pools();
create trigger rules_of_plans after update on plans
    for each statement execute function change_rules_of_all_pools();
create trigger rules_of_lanes after insert or update on lanes
    for each statement execute function change_rules_of_all_pools();
create trigger rules_of_pools before update of peak_percent, urgent_kept_percent, running_tasks, paused on pools
    for each row execute function change_rules();
create trigger rules_of_nodes after update of state on nodes
    for each row when ((old.state = 'draining') <> (new.state = 'draining'))
    execute function change_rules_of_own_pool();
