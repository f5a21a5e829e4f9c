package main

// Locks are the server's (LOCK, LOCKT, LOCKU), so they hold between nodes.

import (
	"fmt"
	"log"
	"math"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// lockRange is a range of bytes, both ends included.
type lockRange struct {
	start, end uint64
	kind       uint32 // 1 read, 2 write
}

// lockOwner has the locks of one process, or of one open file (flock).
type lockOwner struct {
	state []byte
	held  []lockRange
}

// lockState is the open state of a file, which locks need.
type lockState struct {
	cr     cred
	access uint32
	open   []byte // stateid; locks need an open file
	owners map[string]*lockOwner
}

// set records what the server granted; kind 0 is unlocked.
func (o *lockOwner) set(r lockRange) {
	var held []lockRange
	for _, h := range o.held {
		if h.end < r.start || h.start > r.end {
			held = append(held, h)
			continue
		}
		if h.start < r.start {
			held = append(held, lockRange{h.start, r.start - 1, h.kind})
		}
		if h.end > r.end {
			held = append(held, lockRange{r.end + 1, h.end, h.kind})
		}
	}
	if r.kind != 0 {
		held = append(held, r)
	}
	o.held = held
}

// span encodes offset and length.
func (e *enc) span(r lockRange) *enc {
	if e.u64(r.start); r.end >= math.MaxInt64 {
		return e.u64(math.MaxUint64)
	}
	return e.u64(r.end - r.start + 1)
}

// openForLocks opens a file by its handle.
func (f *nfs) openForLocks(n *node, access, claim uint32) *enc {
	e := new(enc).fh(n.fh).op(opOpen, 0, access|0x400, 0).u64(f.c.clientid).str("locks").u32(0, claim)
	if claim == 1 { // CLAIM_PREVIOUS
		e.u32(0)
	}
	return e
}

// lockRequest locks a range; without a lock state, on that of the open file.
func (f *nfs) lockRequest(n *node, name string, state, open []byte, r lockRange, reclaim uint32) *enc {
	e := new(enc).fh(n.fh).op(opLock, r.kind, reclaim).span(r)
	if state != nil {
		return e.u32(0).raw(state).u32(0)
	}
	return e.u32(1, 0).raw(open).u32(0).u64(f.c.clientid).str(name)
}

// lockName identifies the owner of a lock.
func lockName(in *fuse.LkIn) string { return fmt.Sprintf("%d/%d", in.LkFlags&1, in.Owner) }

// span is the range of a request.
func span(in *fuse.LkIn) lockRange {
	kind := map[uint32]uint32{syscall.F_RDLCK: 1, syscall.F_WRLCK: 2}[in.Lk.Typ]
	return lockRange{in.Lk.Start, in.Lk.End, kind}
}

// lock locks or, with kind 0, unlocks a range.
func (f *nfs) lock(h *fuse.InHeader, n *node, cr cred, name string, r lockRange) uint32 {
	n.lockMu.Lock()
	defer n.lockMu.Unlock()
	for range 20 {
		f.mu.Lock()
		l := n.locks
		var state, open []byte
		if l != nil {
			open = l.open
			if o := l.owners[name]; o != nil {
				state = o.state
			}
		}
		f.mu.Unlock()
		if r.kind == 0 && state == nil {
			return 0
		}
		var d *dec
		for access := uint32(3); open == nil && access > 0; access-- {
			if d = f.callAs(cr, h, f.openForLocks(n, access, 4), f.soft); d.op(2) {
				open = append(open, d.take(16)...)
				f.mu.Lock()
				n.locks = &lockState{cr: cr, access: access, open: open, owners: map[string]*lockOwner{}}
				f.mu.Unlock()
			} else if d.st != 13 {
				return d.st
			}
		}
		if open == nil {
			return d.st
		}
		if r.kind == 0 {
			d = f.callAs(cr, h, new(enc).fh(n.fh).op(opLocku, 2, 0).raw(state).span(r), f.soft)
		} else {
			d = f.callAs(cr, h, f.lockRequest(n, name, state, open, r, 0), f.soft)
		}
		if d.op(2) {
			f.mu.Lock()
			o := n.locks.owners[name]
			if o == nil {
				o = &lockOwner{}
				n.locks.owners[name] = o
			}
			o.state = append([]byte(nil), d.take(16)...)
			o.set(r)
			f.mu.Unlock()
			return 0
		}
		if d.st != errStaleStateid && d.st != errBadStateid && d.st != errExpired {
			return d.st
		}
		time.Sleep(100 * time.Millisecond) // the server has restarted, and relock is reclaiming
	}
	return 5
}

// SetLk implements fuse.RawFileSystem.
func (f *nfs) SetLk(_ <-chan struct{}, in *fuse.LkIn) fuse.Status {
	hd := f.opened(in.Fh)
	if in.Lk.Typ == syscall.F_UNLCK { // others must see writes made under the lock
		if st := f.commit(&in.InHeader, hd.n); st != 0 {
			return status(st)
		}
	}
	st := f.lock(&in.InHeader, hd.n, hd.cr, lockName(in), span(in))
	if st == 0 && in.Lk.Typ != syscall.F_UNLCK { // and this node those of others
		if _, change, st := f.stat(&in.InHeader, hd.n); st == 0 {
			hd.n.mu.Lock()
			stale := hd.n.change != change
			hd.n.change = change
			hd.n.mu.Unlock()
			if stale {
				f.server.InodeNotify(hd.n.id, 0, 0)
			}
		}
	}
	return status(st)
}

// SetLkw implements fuse.RawFileSystem; NFSv4.1 without callbacks polls.
func (f *nfs) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	for wait := 10 * time.Millisecond; ; wait = min(wait*2, time.Second) {
		if st := f.SetLk(cancel, in); st != fuse.EAGAIN {
			return st
		}
		select {
		case <-cancel:
			return fuse.EINTR
		case <-time.After(wait):
		}
	}
}

// GetLk implements fuse.RawFileSystem.
func (f *nfs) GetLk(_ <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	hd, r := f.opened(in.Fh), span(in)
	e := new(enc).fh(hd.n.fh).op(opLockt, r.kind).span(r).u64(f.c.clientid).str(lockName(in))
	d := f.callAs(hd.cr, &in.InHeader, e, f.soft)
	if d.op(2); d.st == errDenied {
		start, length := d.u64(), d.u64()
		out.Lk = fuse.FileLock{Start: start, End: math.MaxInt64, Typ: syscall.F_WRLCK}
		if length != math.MaxUint64 {
			out.Lk.End = start + length - 1
		}
		if d.u32() == 1 {
			out.Lk.Typ = syscall.F_RDLCK
		}
		return fuse.OK
	}
	out.Lk = in.Lk
	out.Lk.Typ = syscall.F_UNLCK
	return status(d.st)
}

// unlockAll releases an owner's locks when it closes the file.
func (f *nfs) unlockAll(h *fuse.InHeader, hd *handle, name string) {
	f.mu.Lock()
	held := hd.n.locks != nil && hd.n.locks.owners[name] != nil && len(hd.n.locks.owners[name].held) > 0
	f.mu.Unlock()
	if held {
		f.lock(h, hd.n, hd.cr, name, lockRange{0, math.MaxInt64, 0})
	}
}

// closeForLocks closes the open state after the last close.
func (f *nfs) closeForLocks(n *node) {
	f.mu.Lock()
	l := n.locks
	n.locks = nil
	f.mu.Unlock()
	if l != nil {
		go f.c.do(l.cr, new(enc).fh(n.fh).op(opClose, 0).raw(l.open))
	}
}

// relock reclaims locks from a server that has lost its state.
func (f *nfs) relock(do func(cred, *enc) *dec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		l := n.locks
		if l == nil {
			continue
		}
		reclaim := uint32(1)
		d := do(l.cr, f.openForLocks(n, l.access, 1))
		if !d.op(2) { // no grace period: the lease expired
			reclaim = 0
			if d = do(l.cr, f.openForLocks(n, l.access, 4)); !d.op(2) {
				log.Printf("%s: cannot reopen a locked file: error %d", f.c.addr, d.st)
				n.locks = nil
				continue
			}
		}
		l.open = append([]byte(nil), d.take(16)...)
		for name, o := range l.owners {
			o.state = nil
			for _, r := range o.held {
				if d := do(l.cr, f.lockRequest(n, name, o.state, l.open, r, reclaim)); d.op(2) {
					o.state = append([]byte(nil), d.take(16)...)
				} else {
					log.Printf("%s: lost a lock: error %d", f.c.addr, d.st)
				}
			}
			if o.state == nil {
				delete(l.owners, name)
			}
		}
	}
}
