-- How the grants of CPU of a plan's tasks are held. Null: by weight for trusted tenants, by a quota for others.
alter table plans add column cpu_limit text check (cpu_limit in ('burst', 'quota'));

-- A task that says nothing about its size mostly waits. It gets a quarter of a CPU, unless an operator has set the tier.
update tiers set cpu_milli = 250
where name = 'basic' and cpu_milli = 1000
    and not exists (select from audit where action = 'tier.set' and target = 'basic');
