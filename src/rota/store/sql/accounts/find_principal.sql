select {principal_columns} from principals where id = $1
