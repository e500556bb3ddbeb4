-- A plan without a list of tiers may use all of them, also those that operators add later.
alter table plans alter column tiers drop not null;
update plans set tiers = null
where name = 'unlimited' and not exists (select from audit where action = 'plan.set' and target = 'unlimited');

-- A category's isolation is one that exists, or none is set; other names were never obeyed.
update categories set isolation = null where isolation not in ('none', 'sandbox', 'container');
alter table categories add constraint categories_isolation check (isolation in ('none', 'sandbox', 'container'));
