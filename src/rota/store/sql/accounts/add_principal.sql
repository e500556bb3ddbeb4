-- Nothing if a principal of this kind has the name, or the address, in any case of letters.
insert into principals (kind, name, tenant, email, created_by) values ($1, $2, $3, $4, $5)
on conflict do nothing returning {principal_columns}
