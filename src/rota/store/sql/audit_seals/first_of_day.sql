-- The number of the first seal of this day or a later one.
select min(number) from audit_seals where day >= $1::date
