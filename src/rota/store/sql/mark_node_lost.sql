update nodes set state = 'lost' where id = $1 and boot = $2 and state <> 'removed'
