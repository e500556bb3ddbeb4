select {plan_columns} from plans order by weight, name
