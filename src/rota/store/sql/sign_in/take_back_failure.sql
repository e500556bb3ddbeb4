-- The attempt that was let through a moment ago was none: there was no wait then, so there is none now.
update sign_in_attempts set failures = greatest(failures - 1, 0), free_at = clock_timestamp() where key = $1
