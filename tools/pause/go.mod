module strata/tools/pause

go 1.26
