"""Reading: status, lists, logs, metrics. Changes nothing."""
