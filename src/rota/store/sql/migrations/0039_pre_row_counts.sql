-- Exact numbers of live tasks and dead letters, without a count of the tables: each statement that adds or removes rows
-- appends its difference. Nobody changes a row of another, so nothing waits for a counter; `fold_row_counts.sql` adds the
-- differences up every second.
create table row_counts (
    counted text not null check (counted in ('queue', 'dead_letters')),
    rows bigint not null
);
grant insert on row_counts to rota_tenant;

create function count_added() returns trigger language plpgsql as $$
begin
    insert into row_counts (counted, rows) select tg_table_name, count(*) from added having count(*) > 0;
    return null;
end $$;

create function count_removed() returns trigger language plpgsql as $$
begin
    insert into row_counts (counted, rows) select tg_table_name, -count(*) from removed having count(*) > 0;
    return null;
end $$;

create trigger count_added after insert on queue
    referencing new table as added for each statement execute function count_added();
create trigger count_removed after delete on queue
    referencing old table as removed for each statement execute function count_removed();
create trigger count_added after insert on dead_letters
    referencing new table as added for each statement execute function count_added();
create trigger count_removed after delete on dead_letters
    referencing old table as removed for each statement execute function count_removed();

-- The triggers have locked both tables: nothing is stored between the count and the first difference.
insert into row_counts (counted, rows)
select 'queue', count(*) from queue union all select 'dead_letters', count(*) from dead_letters;

-- When a server node ended in order; null: it has not.
alter table servers add left_at timestamptz;
