package main

// Open files: reads, write-behind, close-to-open consistency.

import (
	"fmt"
	"log"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// maxDirty is how many bytes of one file may wait for a COMMIT.
const maxDirty = 16 << 20

// write is a piece of a file that is kept until the server has committed it.
type write struct {
	cr   cred
	off  uint64
	data []byte
	verf uint64
}

// open creates a regular file. Reads and writes need no open state, so the same compound closes the file.
func (f *nfs) open(h *fuse.InHeader, name string, mode, flags uint32, out *fuse.EntryOut) (*node, fuse.Status) {
	e := new(enc).fh(f.node(h.NodeId).fh).op(opOpen, 0, (flags&syscall.O_ACCMODE+1)|0x400, 0)
	how, size := uint32(0), (*uint64)(nil)
	if flags&syscall.O_EXCL != 0 {
		how = 1
	} else if flags&syscall.O_TRUNC != 0 {
		size = new(uint64)
	}
	sattr(e.u64(f.c.clientid).str("o").u32(1, how), &mode, nil, nil, size, nil, nil).u32(0).str(name)
	d := f.call(h, getattr(e.op(opGetfh)).op(opClose, 0, 1, 0, 0, 0))
	if !d.op(2) {
		if d.st == errExist && d.resent {
			st := f.Lookup(nil, h, name, out)
			return f.node(out.NodeId), st
		}
		return nil, status(d.st)
	}
	d.take(36 + 4)
	d.bitmap()
	if t := d.u32(); t == 3 {
		if why := d.u32(); why == 1 || why == 2 {
			d.u32()
		}
	}
	n, st := f.made(h, d, out)
	if st == fuse.OK && size != nil {
		n.truncated(0)
	}
	return n, st
}

// handle registers an open file.
func (f *nfs) handle(n *node, cr cred) uint64 {
	n.mu.Lock()
	n.opens++
	n.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.handles[f.last] = &handle{n: n, cr: cr}
	return f.last
}

// Create implements fuse.RawFileSystem.
func (f *nfs) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	n, st := f.open(&in.InHeader, name, in.Mode, in.Flags, &out.EntryOut)
	if st == fuse.OK {
		out.Fh = f.handle(n, f.cred(&in.InHeader))
	}
	return st
}

// Open implements fuse.RawFileSystem; data in the kernel's cache stays if the file has not changed.
func (f *nfs) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := f.node(in.NodeId)
	before := n.written()
	if st := f.settle(&in.InHeader, n); st != 0 {
		return status(st)
	}
	need := [...]uint32{1 | 0x20, 0xc, 1 | 0xc}[in.Flags&syscall.O_ACCMODE%3]
	d := f.call(&in.InHeader, getattr(new(enc).fh(n.fh).op(opAccess, need)))
	if !d.op(2) {
		return status(d.st)
	}
	d.u32()
	granted := d.u32()
	if (need&0x21 != 0 && granted&0x21 == 0) || (need&0xc != 0 && granted&0xc == 0) {
		return fuse.EACCES
	}
	d.op(1)
	a, change, _ := d.attr()
	n.mu.Lock()
	current := n.change == change && d.st == 0
	n.change = change
	n.mu.Unlock()
	if d.st == 0 {
		n.sized(a.Size, before)
	}
	if current {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	} else {
		// before the reply: fstat after open must not return an earlier size
		f.server.InodeNotify(n.id, -1, 0)
	}
	out.Fh = f.handle(n, f.cred(&in.InHeader))
	return status(d.st)
}

// opened returns an open file.
func (f *nfs) opened(fh uint64) *handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handles[fh]
}

// Read implements fuse.RawFileSystem.
func (f *nfs) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	hd := f.opened(in.Fh)
	if st := f.settle(&in.InHeader, hd.n); st != 0 {
		return nil, status(st)
	}
	got := 0
	for eof := false; !eof && got < len(buf); {
		size := min(len(buf)-got, f.c.maxIO)
		d := f.callAs(hd.cr, &in.InHeader, new(enc).fh(hd.n.fh).op(opRead, 0, 0, 0, 0).u64(in.Offset+uint64(got)).u32(uint32(size)), f.soft)
		if !d.op(2) {
			return nil, status(d.st)
		}
		eof = d.u32() != 0
		got += copy(buf[got:], d.bytes())
	}
	return fuse.ReadResultData(buf[:got]), fuse.OK
}

// busy reports whether writes have not reached the server.
func (n *node) busy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tail != nil || n.inflight > 0
}

// beyond reports whether this client has written more than such attributes tell, which are earlier ones then.
func (n *node) beyond(size uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.end > size
}

// written counts the writes of this client.
func (n *node) written() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.writes
}

// sized notes the size that the server told, which other clients may have changed, unless a write of ours came after.
func (n *node) sized(size, writes uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.writes == writes {
		n.end = size
	}
}

// truncated notes the size that a truncation of this client left.
func (n *node) truncated(size uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes, n.end = n.writes+1, size
}

// transmit sends the gathered write; n.mu is held. The next fsync or close reports errors.
func (f *nfs) transmit(n *node, stable uint32) {
	w := n.tail
	if n.tail = nil; w == nil {
		return
	}
	n.dirty = append(n.dirty, w)
	n.inflight++
	go func() {
		st := f.store(n, w, stable)
		n.mu.Lock()
		if st != 0 {
			n.werr, n.end = st, 0
		} else if stable != 0 {
			n.dirty = slices.DeleteFunc(n.dirty, func(o *write) bool { return o == w })
			n.size -= len(w.data)
		}
		n.inflight--
		close(n.moved)
		n.moved = make(chan struct{})
		n.mu.Unlock()
	}()
}

// store executes the WRITEs of one piece.
func (f *nfs) store(n *node, w *write, stable uint32) uint32 {
	for at := 0; at < len(w.data); {
		part := w.data[at:min(at+f.c.maxIO, len(w.data))]
		d := f.c.do(w.cr, new(enc).fh(n.fh).op(opWrite, 0, 0, 0, 0).u64(w.off+uint64(at)).u32(stable).bytes(part))
		if !d.op(2) {
			return d.st
		}
		count := d.u32()
		d.u32()
		if w.verf = d.u64(); count == 0 {
			return 5
		}
		at += int(count)
	}
	return 0
}

// settle waits until all writes have reached the server.
func (f *nfs) settle(h *fuse.InHeader, n *node) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	f.transmit(n, 0)
	for n.inflight > 0 {
		ch := n.moved
		n.mu.Unlock()
		_, st := wait(f, ch, h, f.soft)
		n.mu.Lock()
		if st != 0 {
			return st
		}
	}
	return 0
}

// commit makes writes durable, and repeats those that a restart of the server lost.
func (f *nfs) commit(h *fuse.InHeader, n *node) uint32 {
	n.mu.Lock()
	if len(n.dirty) == 0 {
		f.transmit(n, 2) // a small file needs no COMMIT
	}
	n.mu.Unlock()
	if st := f.settle(h, n); st != 0 {
		return st
	}
	n.mu.Lock()
	dirty, werr := n.dirty, n.werr
	n.dirty, n.size, n.werr = nil, 0, 0
	n.mu.Unlock()
	if len(dirty) == 0 || werr != 0 {
		return werr
	}
	ch := make(chan uint32, 1)
	go func() {
		d := f.c.do(dirty[0].cr, new(enc).fh(n.fh).op(opCommit).u64(0).u32(0))
		if d.op(2) {
			verf, again := d.u64(), 0
			for _, w := range dirty {
				if w.verf != verf && d.st == 0 {
					again += len(w.data)
					d.st = f.store(n, w, 2)
				}
			}
			if again > 0 {
				log.Printf("%s has restarted: %d bytes written again", f.c.addr, again)
			}
		}
		ch <- d.st
	}()
	st, err := wait(f, ch, h, f.soft)
	return max(st, err)
}

// Write implements fuse.RawFileSystem: it gathers adjacent writes, and sends them in the background.
func (f *nfs) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	hd := f.opened(in.Fh)
	n, off := hd.n, in.Offset
	// what a page of a mapped file holds belongs where it was, whatever else the file is open for
	appends := in.Flags&syscall.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0
	n.mu.Lock()
	over := n.size+len(data) > maxDirty
	again := false
	if !appends && (n.inflight > 0 || n.tail != nil) { // writes to the same place keep their order
		for _, w := range append(n.dirty[:len(n.dirty):len(n.dirty)], n.tail) {
			again = again || w != nil && w.off < off+uint64(len(data)) && off < w.off+uint64(len(w.data))
		}
	}
	n.mu.Unlock()
	st := uint32(0)
	if over {
		st = f.commit(&in.InHeader, n)
	} else if again {
		st = f.settle(&in.InHeader, n)
	}
	if st != 0 {
		return 0, status(st)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if appends && n.end > off {
		// the kernel took an earlier size for the latest: it was in the reply of a CREATE that other writes overtook
		off = n.end
		go f.server.InodeNotify(n.id, int64(in.Offset), 0) // waits for this reply
	}
	if t := n.tail; t != nil && (t.cr != hd.cr || t.off+uint64(len(t.data)) != off || len(t.data)+len(data) > f.c.maxIO) {
		f.transmit(n, 0)
	}
	if n.tail == nil {
		n.tail = &write{cr: hd.cr, off: off}
		w := n.tail
		time.AfterFunc(time.Second, func() {
			n.mu.Lock()
			if n.tail == w {
				f.transmit(n, 0)
			}
			n.mu.Unlock()
		})
	}
	if n.tail.data == nil && len(data) >= 64<<10 {
		n.tail.data = make([]byte, 0, f.c.maxIO)
	}
	n.tail.data = append(n.tail.data, data...)
	n.size += len(data)
	n.change, n.writes, n.end = 0, n.writes+1, max(n.end, off+uint64(len(data)))
	if len(n.tail.data) >= f.c.maxIO {
		f.transmit(n, 0)
	}
	return uint32(len(data)), fuse.OK
}

// Flush implements fuse.RawFileSystem: what was written before a close is durable after it.
func (f *nfs) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	hd := f.opened(in.Fh)
	st := f.commit(&in.InHeader, hd.n)
	f.unlockAll(&in.InHeader, hd, fmt.Sprintf("0/%d", in.LockOwner))
	return status(st)
}

// Fsync implements fuse.RawFileSystem.
func (f *nfs) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return status(f.commit(&in.InHeader, f.opened(in.Fh).n))
}

// FsyncDir implements fuse.RawFileSystem; directories are durable at the server.
func (f *nfs) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return fuse.OK }

// Release implements fuse.RawFileSystem.
func (f *nfs) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	f.mu.Lock()
	hd := f.handles[in.Fh]
	n := hd.n
	delete(f.handles, in.Fh)
	f.mu.Unlock()
	if in.ReleaseFlags&2 != 0 {
		f.unlockAll(nil, hd, fmt.Sprintf("1/%d", in.LockOwner))
	}
	n.mu.Lock()
	n.opens--
	s := n.silly
	if n.opens == 0 {
		n.silly = nil
	}
	last := n.opens == 0
	n.mu.Unlock()
	if last {
		f.closeForLocks(n)
	}
	if last && s != nil {
		go f.c.do(s.cr, new(enc).fh(s.dir).op(opRemove).str(s.name))
	}
}
