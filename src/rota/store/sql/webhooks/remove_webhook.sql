delete from webhooks where tenant = $1 and id = $2 returning id
