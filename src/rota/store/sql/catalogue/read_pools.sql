select {pool_columns} from pools order by id
