select key_id, wrapped_key, ciphertext, confirmed_at is not null as confirmed, last_step
from second_factors where principal = $1
