package main

// Calling processes: their identity, and how long they wait.

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// cachedGroups are the supplementary groups of a process.
type cachedGroups struct {
	xdr   string
	until time.Time
}

// cred returns the identity of the calling process, with its supplementary groups.
func (f *nfs) cred(h *fuse.InHeader) cred {
	cr := cred{uid: h.Uid, gid: h.Gid}
	if h.Uid == 0 || h.Pid == 0 {
		return cr
	}
	if cached, ok := f.groups.Load(h.Pid); ok {
		if g, ok := cached.(cachedGroups); ok && time.Now().Before(g.until) {
			cr.groups = g.xdr
			return cr
		}
	}
	e := new(enc)
	for i, g := range strings.Fields(procStatus(h.Pid, "Groups:")) {
		if v, err := strconv.ParseUint(g, 10, 32); err == nil && i < 16 {
			e.u32(uint32(v))
		}
	}
	cr.groups = string(new(enc).u32(uint32(len(e.b) / 4)).raw(e.b).b)
	f.groups.Store(h.Pid, cachedGroups{cr.groups, time.Now().Add(2 * time.Second)})
	return cr
}

// procStatus returns the value of a key in /proc/PID/status.
func procStatus(pid uint32, key string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "\n"+key)
	line, _, _ := strings.Cut(after, "\n")
	return line
}

// ending reports whether a waiting thread is being killed, or exits while the server is down.
func (f *nfs) ending(pid uint32) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	for _, key := range []string{"SigPnd:", "ShdPnd:"} {
		if v, _ := strconv.ParseUint(strings.TrimSpace(procStatus(pid, key)), 16, 64); v&(1<<8) != 0 {
			return true
		}
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	return flags&4 != 0 && f.c.down() > 3*time.Second // PF_EXITING
}

// wait waits as a hard mount does: only a killed process or a limit (soft mounts) ends it early.
func wait[T any](f *nfs, ch <-chan T, h *fuse.InHeader, limit time.Duration) (v T, st uint32) {
	every := 200 * time.Millisecond
	if limit > 0 {
		every = min(every, limit)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for start := time.Now(); ; {
		select {
		case v = <-ch:
			return v, 0
		case <-tick.C:
			if h != nil && h.Pid != 0 && f.ending(h.Pid) {
				return v, errInterrupted
			}
			if limit > 0 && time.Since(start) >= limit {
				return v, errTimed
			}
		}
	}
}

// callAs executes a compound with a given identity.
func (f *nfs) callAs(cr cred, h *fuse.InHeader, e *enc, limit time.Duration) *dec {
	ch := make(chan *dec, 1)
	go func() { ch <- f.c.do(cr, e) }()
	d, st := wait(f, ch, h, limit)
	if st != 0 {
		return &dec{st: st}
	}
	return d
}

// call executes a compound with the identity of the calling process.
func (f *nfs) call(h *fuse.InHeader, e *enc) *dec { return f.callAs(f.cred(h), h, e, f.soft) }
