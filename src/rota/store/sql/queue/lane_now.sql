case when queue.state = {READY} and queue.wake_at <= now() then {Lane.URGENT}
        when queue.state = {RUNNING} then coalesce(queue.ran_lane, queue.lane) else queue.lane end
