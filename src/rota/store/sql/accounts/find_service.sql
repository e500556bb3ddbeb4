select {principal_columns} from principals where kind = 'service' and tenant = $2 and lower(name) = lower($1)
