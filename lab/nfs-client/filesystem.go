package main

// Files as the kernel numbers them.

import (
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// status translates NFS errors; most are those of errno.
func status(st uint32) fuse.Status {
	if e, ok := errnos[st]; ok {
		return fuse.Status(e)
	} else if st > 40 {
		return fuse.EIO
	}
	return fuse.Status(st)
}

// node is a file that the kernel knows.
type node struct {
	id, refs uint64
	fh       string
	mu       sync.Mutex
	opens    int
	silly    *silly   // set where the file was removed while it is open
	change   uint64   // change attribute of the data in the kernel's cache
	tail     *write   // not sent yet
	dirty    []*write // sent, not committed
	size     int      // bytes of both
	inflight int
	end      uint64 // the file has at least these bytes, by writes of this client; 0 is unknown
	writes   uint64 // how many there were, truncations included
	werr     uint32
	moved    chan struct{} // closed when inflight decreases
	lockMu   sync.Mutex
	locks    *lockState
}

// silly is the name of a removed file until its last close, as the kernel's client has it.
type silly struct {
	dir, name string
	cr        cred
}

// handle is an open file or directory.
type handle struct {
	n      *node
	cr     cred
	mu     sync.Mutex
	dir    []dirent
	verf   []byte
	eof    bool
	cookie uint64
}

// nfs is a mounted export.
type nfs struct {
	fuse.RawFileSystem
	c        *client
	server   *fuse.Server
	root     string
	soft     time.Duration
	ttl      time.Duration
	mu       sync.Mutex
	nodes    map[uint64]*node
	byFH     map[string]*node
	handles  map[uint64]*handle
	last     uint64
	groups   sync.Map
	rootAttr fuse.Attr
	statfs   fuse.StatfsOut
}

// node returns a file by the kernel's number.
func (f *nfs) node(id uint64) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[id]
}

// start looks up the exported directory.
func (f *nfs) start(path string) uint32 {
	e := new(enc).op(opPutrootfh)
	ops := 1
	for _, name := range strings.Split(path, "/") {
		if name != "" {
			e.op(opLookup).str(name)
			ops++
		}
	}
	d := f.callAs(cred{}, nil, e.op(opGetfh), 30*time.Second)
	if !d.op(ops + 1) {
		return d.st
	}
	f.root = string(d.bytes())
	root := &node{id: fuse.FUSE_ROOT_ID, refs: 1, fh: f.root, moved: make(chan struct{})}
	f.nodes, f.byFH = map[uint64]*node{1: root}, map[string]*node{f.root: root}
	f.handles, f.last = map[uint64]*handle{}, 1
	f.StatFs(nil, &fuse.InHeader{}, new(fuse.StatfsOut))
	_, _, st := f.stat(&fuse.InHeader{}, root)
	return st
}

// entry fills in the reply for a file that was found or created.
func (f *nfs) entry(h *fuse.InHeader, fh string, a fuse.Attr, out *fuse.EntryOut) *node {
	f.mu.Lock()
	n := f.byFH[fh]
	if n == nil {
		f.last++
		n = &node{id: f.last, fh: fh, moved: make(chan struct{})}
		f.nodes[n.id], f.byFH[fh] = n, n
	}
	n.refs++
	f.mu.Unlock()
	if n.busy() || n.beyond(a.Size) {
		if b, _, st := f.stat(h, n); st == 0 {
			a = b
		}
	}
	out.NodeId, out.Generation, out.Attr = n.id, 1, a
	out.SetEntryTimeout(f.ttl)
	out.SetAttrTimeout(f.ttl)
	return n
}

// made reads the results GETFH and GETATTR.
func (f *nfs) made(h *fuse.InHeader, d *dec, out *fuse.EntryOut) (*node, fuse.Status) {
	if !d.op(1) {
		return nil, status(d.st)
	}
	fh := string(d.bytes())
	d.op(1)
	a, _, _ := d.attr()
	if d.st != 0 {
		return nil, status(d.st)
	}
	return f.entry(h, fh, a, out), fuse.OK
}

// Lookup implements fuse.RawFileSystem.
func (f *nfs) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	d := f.call(h, getattr(new(enc).fh(f.node(h.NodeId).fh).op(opLookup).str(name).op(opGetfh)))
	if !d.op(2) {
		return status(d.st)
	}
	_, st := f.made(h, d, out)
	return st
}

// Forget implements fuse.RawFileSystem.
func (f *nfs) Forget(id, count uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.nodes[id]; n != nil && id != fuse.FUSE_ROOT_ID {
		if n.refs -= count; n.refs == 0 {
			delete(f.nodes, id)
			delete(f.byFH, n.fh)
		}
	}
}

// StatFs implements fuse.RawFileSystem; it repeats its last reply while the server is down.
func (f *nfs) StatFs(_ <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	limit := f.soft
	if f.statfs.Bsize != 0 {
		limit = f.brief()
	}
	d := f.callAs(f.cred(h), h, new(enc).fh(f.root).op(opGetattr, 2, 7<<21, 7<<10), limit)
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.op(2) {
		const block = 4096
		d.bitmap()
		d.u32()
		s := fuse.StatfsOut{Bsize: block, Frsize: block, NameLen: 255}
		d.u64()
		s.Ffree, s.Files = d.u64(), d.u64()
		s.Bavail, s.Bfree, s.Blocks = d.u64()/block, d.u64()/block, d.u64()/block
		f.statfs = s
	} else if d.st != errTimed || f.statfs.Bsize == 0 {
		return status(d.st)
	}
	*out = f.statfs
	return fuse.OK
}

// goodbye ends session and client at the server.
func (f *nfs) goodbye() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.c.t != nil && f.c.have {
		_, _ = f.c.send(f.c.t, cred{}, new(enc), new(enc).op(opDestroySession).raw(f.c.sid), time.Second)
		_, _ = f.c.send(f.c.t, cred{}, new(enc), new(enc).op(opDestroyClientid).u64(f.c.clientid), time.Second)
	}
}
