-- Replaces the differences by their sums, once there are enough of them. Servers that fold at the same time share them.
with folded as (
    delete from row_counts where ctid = any (array(
        select ctid from row_counts where (select count(*) from row_counts) > $1 limit $2 for update skip locked
    ))
    returning counted, rows
)
insert into row_counts (counted, rows) select counted, sum(rows) from folded group by counted
