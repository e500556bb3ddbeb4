select from graphs where graphs.id = $1 and graphs.tenant = $2 and $3 in (graphs.id, graphs.within)
