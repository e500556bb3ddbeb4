delete from occurrences where schedule = $1 and instant in
(select instant from occurrences where schedule = $1 order by instant limit $2) returning instant
