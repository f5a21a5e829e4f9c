// Command object-storage serves one folder as one S3 bucket, with versitygw.
//
// It runs once per bucket: versitygw follows symbolic links, so a process that could read two tenants' folders would
// serve each tenant the other's files. Here a link leads nowhere else, whatever the key.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

const (
	filePerm    fs.FileMode = 0o660 // group: the tenant's
	dirPerm     fs.FileMode = 0o770
	umask                   = 0o007
	maxParts                = 10_000
	connections             = 4_096
	requests                = 1_024
)

type settings struct {
	buckets   string // folder with the bucket's folder, and nothing else
	metadata  string // folder of ETags, content types, …: NFS has no extended attributes
	bucket    string // also the id of its access key
	secretKey string // file
	region    string
	listen    string
	metrics   string // address of the metrics, apart from the port that is published
}

// oneKey refuses other keys with 403 InvalidAccessKeyId; versitygw's own service responds with 404, which clients take for
// an object that is not there.
type oneKey struct{ auth.IAMService }

func (oneKey) GetUserAccount(string) (auth.Account, error) {
	return auth.Account{}, auth.ErrNoSuchUser
}

func main() {
	if err := run(fromEnvironment()); err != nil {
		fmt.Fprintln(os.Stderr, "object-storage:", err)
		os.Exit(1)
	}
}

func fromEnvironment() settings {
	return settings{
		buckets:   os.Getenv("BUCKETS"),
		metadata:  os.Getenv("METADATA"),
		bucket:    os.Getenv("BUCKET"),
		secretKey: os.Getenv("SECRET_KEY_FILE"),
		region:    os.Getenv("REGION"),
		listen:    os.Getenv("LISTEN"),
		metrics:   os.Getenv("METRICS"),
	}
}

func run(s settings) error {
	secret, err := os.ReadFile(s.secretKey)
	if err != nil {
		return err
	}
	key := strings.TrimSpace(string(secret))
	if key == "" {
		return fmt.Errorf("%s is empty", s.secretKey)
	}
	// posix.New changes to the folder with the buckets
	for _, path := range []*string{&s.buckets, &s.metadata} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if _, err := os.ReadDir(filepath.Join(s.buckets, s.bucket)); err != nil {
		return err
	}
	syscall.Umask(umask)
	sidecar, err := meta.NewSideCar(s.metadata)
	if err != nil {
		return err
	}
	options := posix.PosixOpts{
		SideCarDir:     s.metadata,
		ForceNoTmpFile: true, // NFS has none
		// its file would be beside the buckets; there is one process
		ForceNoObjLockFile:  true,
		CopyObjectThreshold: 5 << 30, // that of S3
		ValidateBucketNames: true,
	}
	options.SetNewDirPerm(dirPerm)
	options.SetNewFilePerm(filePerm)
	backend, err := posix.New(s.buckets, stamped{sidecar, s.buckets, s.metadata}, options)
	if err != nil {
		return err
	}
	statsd, err := countRequests(s.bucket, s.metrics)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess:    s.bucket,
		RootUserSecret:    key,
		IAMService:        oneKey{auth.NewIAMServiceSingle(auth.Account{Access: s.bucket, Secret: key})},
		Region:            s.region,
		Ports:             []string{s.listen},
		MaxConnections:    connections,
		MaxRequests:       requests,
		MultipartMaxParts: maxParts,
		HealthPath:        "/_health",
		KeepAlive:         true,
		Quiet:             true,
		DisableACLs:       true,
		StatsdServers:     statsd,
		// not on the port that is published
		AdminPorts:          []string{"@object-storage-admin"},
		AdminMaxConnections: 1,
		AdminMaxRequests:    1,
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
