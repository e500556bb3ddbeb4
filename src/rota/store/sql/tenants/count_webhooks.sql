select count(*) from webhooks where tenant = $1
