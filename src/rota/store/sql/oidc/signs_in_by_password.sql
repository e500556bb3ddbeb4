select exists (select from passwords where principal = $1)
