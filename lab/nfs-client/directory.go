package main

// Directories.

import (
	"bytes"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// dirent is an entry as the server lists it.
type dirent struct {
	cookie uint64
	name   string
	fh     string
	a      fuse.Attr
	change uint64
}

// OpenDir implements fuse.RawFileSystem.
func (f *nfs) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.Fh = f.handle(f.node(in.NodeId), f.cred(&in.InHeader))
	return fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (f *nfs) ReleaseDir(in *fuse.ReleaseIn) { f.Release(nil, in) }

// next returns the entry after a cookie, nil at the end.
func (f *nfs) next(h *fuse.InHeader, hd *handle, cookie uint64) (*dirent, uint32) {
	for len(hd.dir) > 0 && cookie != hd.cookie {
		hd.cookie, hd.dir = hd.dir[0].cookie, hd.dir[1:]
	}
	if len(hd.dir) > 0 {
		return &hd.dir[0], 0
	}
	if cookie != hd.cookie || hd.verf == nil || cookie == 0 {
		hd.eof = false
	}
	if hd.eof {
		return nil, 0
	}
	if cookie == 0 || hd.verf == nil {
		hd.verf = make([]byte, 8)
	}
	e := new(enc).fh(hd.n.fh).op(opReaddir).u64(cookie).raw(hd.verf).u32(64<<10, uint32(min(512<<10, f.c.maxIO)), 2, attrBits[0]|1<<19, attrBits[1])
	d := f.call(h, e)
	if !d.op(2) {
		return nil, d.st
	}
	hd.verf, hd.cookie = bytes.Clone(d.take(8)), cookie
	for d.u32() != 0 && d.st == 0 {
		x := dirent{cookie: d.u64(), name: string(d.bytes())}
		x.a, x.change, x.fh = d.attr()
		hd.dir = append(hd.dir, x)
	}
	hd.eof = d.u32() != 0
	if len(hd.dir) == 0 {
		return nil, d.st
	}
	return &hd.dir[0], d.st
}

// readdir lists entries, with attributes where plus is set.
func (f *nfs) readdir(in *fuse.ReadIn, out *fuse.DirEntryList, plus bool) fuse.Status {
	hd := f.opened(in.Fh)
	hd.mu.Lock()
	defer hd.mu.Unlock()
	for off := in.Offset; ; {
		if off < 2 { // . and .. get the cookies that NFS reserves
			e := fuse.DirEntry{Name: ".."[:off+1], Mode: syscall.S_IFDIR, Ino: fuse.FUSE_UNKNOWN_INO, Off: off + 1}
			if plus && out.AddDirLookupEntry(e) == nil || !plus && !out.AddDirEntry(e) {
				return fuse.OK
			}
			off++
			continue
		}
		cookie := off
		if off == 2 {
			cookie = 0
		}
		x, st := f.next(&in.InHeader, hd, cookie)
		if x == nil || st != 0 {
			return status(st)
		}
		e := fuse.DirEntry{Name: x.name, Mode: x.a.Mode, Ino: x.a.Ino, Off: x.cookie}
		if plus {
			entry := out.AddDirLookupEntry(e)
			if entry == nil {
				return fuse.OK
			}
			f.entry(&in.InHeader, x.fh, x.a, entry)
		} else if !out.AddDirEntry(e) {
			return fuse.OK
		}
		off = x.cookie
	}
}

// ReadDir implements fuse.RawFileSystem.
func (f *nfs) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readdir(in, out, false)
}

// ReadDirPlus implements fuse.RawFileSystem.
func (f *nfs) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readdir(in, out, true)
}
