module strata/lab/images/pause

go 1.26
