package main

// Creating, renaming and removing names.

import (
	"fmt"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// create creates anything but a regular file.
func (f *nfs) create(h *fuse.InHeader, name string, mode *uint32, out *fuse.EntryOut, kind ...any) fuse.Status {
	e := new(enc).fh(f.node(h.NodeId).fh).op(opCreate)
	for _, k := range kind {
		switch k := k.(type) {
		case int:
			e.u32(uint32(k))
		case string:
			e.str(k)
		}
	}
	d := f.call(h, getattr(sattr(e.str(name), mode, nil, nil, nil, nil, nil).op(opGetfh)))
	if !d.op(2) {
		if d.st == errExist && d.resent {
			return f.Lookup(nil, h, name, out)
		}
		return status(d.st)
	}
	d.take(20)
	d.bitmap()
	_, st := f.made(h, d, out)
	return st
}

// Mkdir implements fuse.RawFileSystem.
func (f *nfs) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.create(&in.InHeader, name, &in.Mode, out, 2)
}

// Symlink implements fuse.RawFileSystem.
func (f *nfs) Symlink(_ <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return f.create(h, name, nil, out, 5, target)
}

// Mknod implements fuse.RawFileSystem.
func (f *nfs) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	major, minor := int(in.Rdev>>8&0xfff), int(in.Rdev&0xff|in.Rdev>>12&^0xff)
	switch in.Mode & syscall.S_IFMT {
	case syscall.S_IFIFO:
		return f.create(&in.InHeader, name, &in.Mode, out, 7)
	case syscall.S_IFSOCK:
		return f.create(&in.InHeader, name, &in.Mode, out, 6)
	case syscall.S_IFCHR:
		return f.create(&in.InHeader, name, &in.Mode, out, 4, major, minor)
	case syscall.S_IFBLK:
		return f.create(&in.InHeader, name, &in.Mode, out, 3, major, minor)
	}
	_, st := f.open(&in.InHeader, name, in.Mode, syscall.O_EXCL|syscall.O_WRONLY, out)
	return st
}

// hide renames a file that is open on this node; its last close removes it.
func (f *nfs) hide(h *fuse.InHeader, dir, name string) bool {
	d := f.call(h, new(enc).fh(dir).op(opLookup).str(name).op(opGetfh))
	if !d.op(3) {
		return false
	}
	f.mu.Lock()
	n := f.byFH[string(d.bytes())]
	f.last++
	s := &silly{dir, fmt.Sprintf(".nfs%016x%08x", time.Now().UnixNano(), f.last), f.cred(h)}
	f.mu.Unlock()
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opens == 0 || n.silly != nil {
		return false
	}
	if d = f.call(h, new(enc).fh(dir).op(opSavefh).fh(dir).op(opRename).str(name).str(s.name)); !d.op(4) {
		return false
	}
	n.silly = s
	return true
}

// remove deletes a name.
func (f *nfs) remove(h *fuse.InHeader, name string, file bool) fuse.Status {
	dir := f.node(h.NodeId).fh
	f.mu.Lock()
	file = file && len(f.handles) > 0
	f.mu.Unlock()
	if file && f.hide(h, dir, name) {
		return fuse.OK
	}
	d := f.call(h, new(enc).fh(dir).op(opRemove).str(name))
	if !d.op(2) && d.st == errNoent && d.resent {
		return fuse.OK
	}
	return status(d.st)
}

// Unlink implements fuse.RawFileSystem.
func (f *nfs) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.remove(h, name, true)
}

// Rmdir implements fuse.RawFileSystem.
func (f *nfs) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.remove(h, name, false)
}

// Rename implements fuse.RawFileSystem.
func (f *nfs) Rename(_ <-chan struct{}, in *fuse.RenameIn, old, name string) fuse.Status {
	from, to := f.node(in.NodeId).fh, f.node(in.Newdir).fh
	h := in.InHeader
	if in.Flags&^1 != 0 {
		return fuse.EINVAL
	}
	if in.Flags&1 != 0 { // RENAME_NOREPLACE
		if d := f.call(&h, new(enc).fh(to).op(opLookup).str(name)); d.op(2) {
			return fuse.Status(syscall.EEXIST)
		}
	}
	f.mu.Lock()
	open := len(f.handles) > 0
	f.mu.Unlock()
	if open {
		f.hide(&h, to, name)
	}
	d := f.call(&h, new(enc).fh(from).op(opSavefh).fh(to).op(opRename).str(old).str(name))
	if !d.op(4) && d.st == errNoent && d.resent {
		return fuse.OK
	}
	return status(d.st)
}

// Link implements fuse.RawFileSystem.
func (f *nfs) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	e := new(enc).fh(f.node(in.Oldnodeid).fh).op(opSavefh).fh(f.node(in.NodeId).fh).op(opLink).str(name).op(opRestorefh).op(opGetfh)
	d := f.call(&in.InHeader, getattr(e))
	if !d.op(4) {
		return status(d.st)
	}
	d.take(20)
	d.op(1)
	_, st := f.made(&in.InHeader, d, out)
	return st
}

// Readlink implements fuse.RawFileSystem.
func (f *nfs) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	d := f.call(h, new(enc).fh(f.node(h.NodeId).fh).op(opReadlink))
	if !d.op(2) {
		return nil, status(d.st)
	}
	return d.bytes(), fuse.OK
}
