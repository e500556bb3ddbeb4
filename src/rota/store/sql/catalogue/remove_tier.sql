delete from tiers where name = $1
