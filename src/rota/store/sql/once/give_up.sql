delete from once where tenant = $1 and key = $2 and claim = $3 and done_at is null returning key
