actor = $6
