delete from run_times where (tenant, work) in (
select known.tenant, known.work from (
    select tenant, work, row_number() over (partition by tenant order by learned_at desc) as position
    from run_times
    where tenant in (select tenant from run_times group by tenant having count(*) > $1)
) known where known.position > $1)
