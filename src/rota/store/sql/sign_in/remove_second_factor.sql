delete from second_factors where principal = $1 returning confirmed_at is not null
