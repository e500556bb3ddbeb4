select {token_columns} from tokens join tenants on tenants.id = tokens.tenant order by tokens.id
