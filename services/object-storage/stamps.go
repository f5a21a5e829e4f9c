package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
)

const etag = "etag" // versitygw's name of the attribute

var anyStamp = regexp.MustCompile(`^[0-9]+ [0-9]+ -?[0-9]+\n`)

// stamped binds the attributes of an object to the file that they describe: what was written, overwritten or moved here by
// POSIX has none of an earlier object, and an ETag that follows its content. Folders, and versitygw's own files, are not
// files of users: there, whether an attribute exists has a meaning.
type stamped struct {
	meta.SideCar
	buckets, metadata string
}

func (s stamped) StoreAttribute(file *os.File, bucket, object, attribute string, value []byte) error {
	info, err := s.stat(file, bucket, object)
	if err != nil {
		return err
	}
	if info != nil {
		value = append(stamp(info), value...)
	}
	return s.SideCar.StoreAttribute(file, bucket, object, attribute, value)
}

func (s stamped) RetrieveAttribute(file *os.File, bucket, object, attribute string) ([]byte, error) {
	info, err := s.stat(file, bucket, object)
	if err != nil {
		return nil, err
	}
	value, err := s.SideCar.RetrieveAttribute(file, bucket, object, attribute)
	if info == nil || (err != nil && !errors.Is(err, meta.ErrNoSuchKey)) {
		return value, err
	}
	if own, found := bytes.CutPrefix(value, stamp(info)); found && err == nil {
		return own, nil
	}
	if err == nil && !anyStamp.Match(value) && s.isNewer(info, bucket, object, attribute) {
		return value, nil // of a release without stamps
	}
	if attribute == etag {
		return foreignETag(info), nil
	}
	return nil, meta.ErrNoSuchKey
}

// ListAttributes lists none of a file: versitygw looks for names of its early versions only.
func (s stamped) ListAttributes(bucket, object string) ([]string, error) {
	info, err := s.stat(nil, bucket, object)
	if info != nil || err != nil {
		return nil, err
	}
	return s.SideCar.ListAttributes(bucket, object)
}

// stat returns nil for what has no stamp.
func (s stamped) stat(file *os.File, bucket, object string) (*syscall.Stat_t, error) {
	if object == "" || strings.HasPrefix(object, posix.MetaTmpDir+"/") {
		return nil, nil
	}
	var info fs.FileInfo
	var err error
	if file != nil {
		info, err = file.Stat()
	} else {
		info, err = os.Stat(filepath.Join(s.buckets, bucket, object))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	return info.Sys().(*syscall.Stat_t), nil
}

// isNewer tells whether an attribute was stored after the file was last written.
func (s stamped) isNewer(file *syscall.Stat_t, bucket, object, attribute string) bool {
	info, err := os.Stat(filepath.Join(s.metadata, bucket, object, "meta", attribute))
	return err == nil && info.ModTime().UnixNano() >= file.Mtim.Nano()
}

// stamp is the same after a rename, which ends each upload.
func stamp(info *syscall.Stat_t) []byte {
	return fmt.Appendf(nil, "%d %d %d\n", info.Ino, info.Size, info.Mtim.Nano())
}

// foreignETag looks like that of a multipart upload, which clients do not take for an MD5.
func foreignETag(info *syscall.Stat_t) []byte {
	sum := sha256.Sum256(fmt.Appendf(stamp(info), "%d", info.Ctim.Nano()))
	return fmt.Appendf(nil, "\"%x-1\"", sum[:16])
}
