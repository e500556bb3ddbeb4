select now()
