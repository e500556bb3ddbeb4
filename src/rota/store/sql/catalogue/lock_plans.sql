select name, tiers from plans order by name for share
