-- Whether members of a tenant may cancel, hold and change the tasks of other users of the tenant.
alter table tenants add column share_control boolean not null default true;
