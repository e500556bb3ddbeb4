-- What running anything safely needs: who may use the network, which isolation a pool allows, what an attempt wrote, and
-- that the tenant the operator's own first keys belong to is trusted.

alter table plans add column network boolean not null default false; -- its sandboxed tasks may be given the network
update plans set network = true where name in ('business', 'unlimited');

alter table pools add column isolations text[] not null default '{none,sandbox,container}'
    check (cardinality(isolations) > 0 and isolations <@ array['none', 'sandbox', 'container']);

alter table attempts add column written_bytes bigint not null default 0;

update tenants set trusted = true where name = 'default';
