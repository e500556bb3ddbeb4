select exists (select from tokens)
