-- A rotated token and its successor have one name while both are valid.
drop index tokens_names;
create unique index tokens_names on tokens (tenant, user_name, name)
    where name is not null and revoked_at is null and replaced_by is null;
create index tokens_replaced on tokens (replaced_by) where replaced_by is not null;
