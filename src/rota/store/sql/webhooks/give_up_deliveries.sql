update deliveries set state = {DeliveryState.GIVEN_UP} where webhook = $1 and state = {DeliveryState.WAITING}
