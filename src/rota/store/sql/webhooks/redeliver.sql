update deliveries set state = {DeliveryState.WAITING}, tries = 0, next_at = now() where webhook = $1 and id = $2 returning id
