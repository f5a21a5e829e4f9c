module strata/lab/nfs-client

go 1.25

require github.com/hanwen/go-fuse/v2 v2.9.0

require golang.org/x/sys v0.28.0 // indirect
