insert into schedules (tenant, name, {owner_columns}) values ($1, $2, {owner_values})
on conflict (tenant, name) do nothing returning *
