-- The same password with other parameters, unless it was changed meanwhile.
update passwords set hash = $3 where principal = $1 and hash = $2
