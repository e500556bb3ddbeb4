-- A name is unique among the tokens of a user that are not replaced, so the copy gets it after its original.
update tokens set name = original.name from tokens as original where tokens.id = $2 and original.id = $1
