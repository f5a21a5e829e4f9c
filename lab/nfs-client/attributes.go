package main

// Attributes of files.

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

var (
	attrBits = [2]uint32{1<<1 | 1<<3 | 1<<4 | 1<<20, 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<9 | 1<<13 | 1<<15 | 1<<20 | 1<<21}
	types    = [...]uint32{1: syscall.S_IFREG, 2: syscall.S_IFDIR, 3: syscall.S_IFBLK, 4: syscall.S_IFCHR, 5: syscall.S_IFLNK, 6: syscall.S_IFSOCK, 7: syscall.S_IFIFO}
	errnos   = map[uint32]syscall.Errno{63: syscall.ENAMETOOLONG, 66: syscall.ENOTEMPTY, 69: syscall.EDQUOT, 70: syscall.ESTALE,
		10001: syscall.ESTALE, 10003: syscall.ESTALE, 10004: syscall.EOPNOTSUPP, 10010: syscall.EAGAIN, 10012: syscall.EAGAIN, 10014: syscall.ESTALE,
		10022: syscall.EIO, 10029: syscall.ELOOP, 10038: syscall.EBADF, 10040: syscall.EINVAL, 10041: syscall.EINVAL, 10045: syscall.EDEADLK,
		10046: syscall.EBUSY, 10083: syscall.EINVAL, errInterrupted: syscall.EINTR, errTimed: syscall.EIO}
)

// getattr requests the attributes of attrBits.
func getattr(e *enc) *enc { return e.op(opGetattr, 2, attrBits[0], attrBits[1]) }

// number decodes a numeric owner; other names are nobody.
func number(p []byte) uint32 {
	v, err := strconv.ParseUint(string(p), 10, 32)
	if err != nil {
		return 65534
	}
	return uint32(v)
}

// attr decodes fattr4: the attributes of attrBits, and the file handle where it was requested.
func (d *dec) attr() (a fuse.Attr, change uint64, fh string) {
	m := d.bitmap()
	d.u32()
	has := func(bit int) bool { return m[bit/32]&(1<<(bit%32)) != 0 }
	if has(1) {
		if t := d.u32(); t < uint32(len(types)) {
			a.Mode = types[t]
		}
	}
	if has(3) {
		change = d.u64()
	}
	if has(4) {
		a.Size = d.u64()
	}
	if has(19) {
		fh = string(d.bytes())
	}
	if has(20) {
		a.Ino = d.u64()
	}
	if has(33) {
		a.Mode |= d.u32()
	}
	if has(35) {
		a.Nlink = d.u32()
	}
	if has(36) {
		a.Uid = number(d.bytes())
	}
	if has(37) {
		a.Gid = number(d.bytes())
	}
	if has(41) {
		major, minor := d.u32(), d.u32()
		a.Rdev = major<<8 | minor&0xff | minor&^0xff<<12
	}
	if has(45) {
		a.Blocks = (d.u64() + 511) / 512
	}
	times := func(bit int, s *uint64, ns *uint32) {
		if has(bit) {
			*s, *ns = d.u64(), d.u32()
		}
	}
	times(47, &a.Atime, &a.Atimensec)
	times(52, &a.Ctime, &a.Ctimensec)
	times(53, &a.Mtime, &a.Mtimensec)
	a.Blksize = 4096
	return
}

// sattr encodes attributes to set; a zero time is the server's.
func sattr(e *enc, mode, uid, gid *uint32, size *uint64, atime, mtime *time.Time) *enc {
	var m [2]uint32
	v := new(enc)
	if size != nil {
		m[0] |= 1 << 4
		v.u64(*size)
	}
	if mode != nil {
		m[1] |= 1 << 1
		v.u32(*mode & 07777)
	}
	if uid != nil {
		m[1] |= 1 << 4
		v.str(fmt.Sprint(*uid))
	}
	if gid != nil {
		m[1] |= 1 << 5
		v.str(fmt.Sprint(*gid))
	}
	for bit, t := range map[int]*time.Time{16: atime, 22: mtime} {
		if t != nil {
			m[1] |= 1 << bit
		}
	}
	for _, t := range []*time.Time{atime, mtime} {
		if t != nil && t.IsZero() {
			v.u32(0)
		} else if t != nil {
			v.u32(1).u64(uint64(t.Unix())).u32(uint32(t.Nanosecond()))
		}
	}
	return e.u32(2, m[0], m[1]).bytes(v.b)
}

// brief limits calls that can repeat an earlier reply: unmounting must work while the server is down.
func (f *nfs) brief() time.Duration { return max(2*time.Second-f.c.down(), time.Millisecond) }

// stat requests attributes after writes of this node have reached the server.
func (f *nfs) stat(h *fuse.InHeader, n *node) (a fuse.Attr, change uint64, st uint32) {
	before := n.written()
	if st = f.settle(h, n); st != 0 {
		return a, 0, st
	}
	limit := f.soft
	if n.id == fuse.FUSE_ROOT_ID && f.rootAttr.Mode != 0 {
		limit = f.brief()
	}
	d := f.callAs(f.cred(h), h, getattr(new(enc).fh(n.fh)), limit)
	if d.op(2) {
		a, change, _ = d.attr()
	}
	if d.st == 0 {
		n.sized(a.Size, before)
	}
	if n.id == fuse.FUSE_ROOT_ID {
		f.mu.Lock()
		defer f.mu.Unlock()
		if d.st == 0 {
			f.rootAttr = a
		} else if d.st == errTimed {
			return f.rootAttr, 0, 0
		}
	}
	return a, change, d.st
}

// GetAttr implements fuse.RawFileSystem.
func (f *nfs) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	a, _, st := f.stat(&in.InHeader, f.node(in.NodeId))
	out.Attr = a
	out.SetTimeout(f.ttl)
	return status(st)
}

// SetAttr implements fuse.RawFileSystem.
func (f *nfs) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := f.node(in.NodeId)
	if st := f.settle(&in.InHeader, n); st != 0 {
		return status(st)
	}
	var mode, uid, gid *uint32
	var size *uint64
	var atime, mtime *time.Time
	cr := f.cred(&in.InHeader)
	if v, ok := in.GetMode(); ok {
		mode = &v
	}
	if v, ok := in.GetUID(); ok {
		uid = &v
	}
	if v, ok := in.GetGID(); ok {
		gid = &v
	}
	if v, ok := in.GetSize(); ok {
		size = &v
		if in.Valid&fuse.FATTR_FH != 0 { // ftruncate, with the rights of open
			f.mu.Lock()
			if hd := f.handles[in.Fh]; hd != nil {
				cr = hd.cr
			}
			f.mu.Unlock()
		}
		if st := f.commit(&in.InHeader, n); st != 0 { // a write sent again later must not undo it
			return status(st)
		}
	}
	stamp := func(now, given uint32, s uint64, ns uint32) *time.Time {
		t := time.Unix(int64(s), int64(ns))
		if in.Valid&now != 0 {
			t = time.Time{}
		} else if in.Valid&given == 0 {
			return nil
		}
		return &t
	}
	atime = stamp(fuse.FATTR_ATIME_NOW, fuse.FATTR_ATIME, in.Atime, in.Atimensec)
	mtime = stamp(fuse.FATTR_MTIME_NOW, fuse.FATTR_MTIME, in.Mtime, in.Mtimensec)
	d := f.callAs(cr, &in.InHeader, getattr(sattr(new(enc).fh(n.fh).op(opSetattr, 0, 0, 0, 0), mode, uid, gid, size, atime, mtime)), f.soft)
	if d.op(2) {
		d.bitmap()
	}
	if d.op(1) {
		out.Attr, _, _ = d.attr()
		out.SetTimeout(f.ttl)
	}
	if size != nil && d.st == 0 {
		n.truncated(*size)
	}
	return status(d.st)
}
