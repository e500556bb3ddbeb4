-- By a user or a service account, as a mail address, or by a token that belongs to nobody: tasks name their users by name.
select exists (select from principals where lower(name) = lower($1) or lower(email) = lower($1))
    or exists (select from tokens where lower(user_name) = lower($1) and owner is null)
