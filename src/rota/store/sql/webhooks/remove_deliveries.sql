delete from deliveries where webhook = $1 and tenant = $2
