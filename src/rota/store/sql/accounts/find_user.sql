-- By name, or by address.
select {principal_columns} from principals
where kind = 'user' and (lower(name) = lower($1) or lower(email) = lower($1)) order by lower(name) = lower($1) desc limit 1
