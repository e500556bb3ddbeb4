-- By a user or its mail address, or ($2) by a service account of any tenant: tasks name their users by name alone.
select exists (
    select from principals
    where (kind = 'user' or $2) and (lower(name) = lower($1) or lower(email) = lower($1)) and id is distinct from $3::integer
)
