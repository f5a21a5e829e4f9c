module strata/services/pause

go 1.26
