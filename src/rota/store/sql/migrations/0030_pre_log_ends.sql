-- Of long output the beginning and the end are kept. How many bytes of its stream came before a chunk tells what is left out
-- between two chunks. Null: from an agent that kept the beginning only.
alter table log_chunks add column byte_offset bigint;

-- The most output that is kept of one attempt of a task of the plan.
alter table plans add column log_limit_bytes bigint check (log_limit_bytes > 0);
update plans set log_limit_bytes = 1048576 where name = 'free';
update plans set log_limit_bytes = 67108864 where name = 'standard';
update plans set log_limit_bytes = 1073741824 where name = 'business';
