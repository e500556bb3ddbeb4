select capacity, labels from nodes where id = $1
