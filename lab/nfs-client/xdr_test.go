package main

import (
	"bytes"
	"testing"
	"time"
)

func TestXDRPadsToFourBytes(t *testing.T) {
	for size := range 9 {
		text := bytes.Repeat([]byte{'x'}, size)
		e := new(enc).bytes(text).u32(7)
		d := &dec{b: e.b}
		if len(e.b)%4 != 0 || !bytes.Equal(d.bytes(), text) || d.u32() != 7 || d.st != 0 {
			t.Errorf("%d bytes: %x", size, e.b)
		}
	}
}

func TestATruncatedReplyIsAnErrorAndNoPanic(t *testing.T) {
	full := getattrReply()
	for size := range len(full) {
		d := &dec{b: full[:size]}
		if d.op(1) {
			d.attr()
		}
		if d.st == 0 {
			t.Errorf("%d of %d bytes are accepted", size, len(full))
		}
	}
	d := &dec{b: full}
	d.op(1)
	if a, change, _ := d.attr(); d.st != 0 || a.Size != 4096 || change != 9 || a.Uid != 1000 || a.Gid != 65534 {
		t.Errorf("%+v %d %d", a, change, d.st)
	}
}

// getattrReply has change, size, owner and a group that is a name.
func getattrReply() []byte {
	values := new(enc).u64(9).u64(4096).str("1000").str("nogroup@example.org")
	return new(enc).u32(opGetattr, 0).u32(2, 1<<3|1<<4, 1<<4|1<<5).bytes(values.b).b
}

func TestRepliesThatAServerDoesNotStoreAreMarked(t *testing.T) {
	for code, long := range map[uint32]bool{opRead: true, opReaddir: true, opReadlink: true, opWrite: false, opRemove: false} {
		if e := new(enc).fh("f").op(code); e.longReply != long {
			t.Errorf("operation %d: %v", code, e.longReply)
		}
	}
}

func TestAttributesToSet(t *testing.T) {
	size, zero := uint64(5), time.Time{}
	d := &dec{b: sattr(new(enc), nil, nil, nil, &size, nil, &zero).b}
	if m := d.bitmap(); m != [3]uint32{1 << 4, 1 << 22} {
		t.Errorf("bitmap %x", m)
	}
	if v := (&dec{b: d.bytes()}); v.u64() != 5 || v.u32() != 0 || len(v.b) != 0 {
		t.Errorf("values %x", v.b)
	}
}

func TestPeekSkipsTheSelectionOfFiles(t *testing.T) {
	ok := new(enc).u32(opPutfh, 0, opSavefh, 0, opPutfh, 0)
	if st := peek(ok.u32(opRename, errDelay).b); st != errDelay {
		t.Errorf("status %d", st)
	}
	if st := peek(new(enc).u32(opPutfh, errStale).b); st != errStale {
		t.Errorf("status %d", st)
	}
}
