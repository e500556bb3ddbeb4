select graph from occurrences where schedule = $1 and graph < $2 order by graph desc limit $3
