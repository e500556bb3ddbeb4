update schedules set ({owner_columns}, changed_at, version) = ({owner_values}, now(), version + 1)
where id = $1 and tenant = $2 returning *
