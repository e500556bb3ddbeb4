select counted, sum(rows)::bigint as rows from row_counts group by counted
