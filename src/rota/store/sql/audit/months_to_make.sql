-- This month and the next two, unless they are there.
select month::date
from generate_series(
    date_trunc('month', now() at time zone 'UTC'), date_trunc('month', now() at time zone 'UTC') + interval '2 months',
    interval '1 month'
) month
where to_regclass('audit_log_' || to_char(month, 'YYYYMM')) is null or to_regclass('audit_seals_' || to_char(month, 'YYYYMM')) is null
order by month
