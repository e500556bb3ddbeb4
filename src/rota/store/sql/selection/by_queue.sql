select queue.id from queue where queue.id < $2 and $5::text is null order by queue.id desc limit $3
