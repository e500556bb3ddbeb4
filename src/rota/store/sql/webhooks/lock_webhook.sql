select {columns} from webhooks where id = $1 and stopped_reason is null for update skip locked
