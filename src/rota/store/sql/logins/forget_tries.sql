delete from code_tries where who in (select who from code_tries where arrival < now() order by arrival limit $1)
