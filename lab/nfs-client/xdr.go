package main

// XDR: compounds and their results.

import (
	"encoding/binary"
)

// Operations and errors of RFC 8881; the last two errors are the client's own.
const (
	opAccess, opClose, opCommit, opCreate, opGetattr, opGetfh, opLink, opLock = 3, 4, 5, 6, 9, 10, 11, 12
	opLockt, opLocku, opLookup, opOpen, opPutfh, opPutrootfh, opRead          = 13, 14, 15, 18, 22, 24, 25
	opReaddir, opReadlink, opRemove, opRename, opRestorefh, opSavefh          = 26, 27, 28, 29, 31, 32
	opSetattr, opWrite, opExchangeID, opCreateSession, opDestroySession       = 34, 38, 42, 43, 44
	opSequence, opDestroyClientid, opReclaimComplete                          = 53, 57, 58

	errNoent, errExist, errStale, errDelay, errGrace, errDenied             = 2, 17, 70, 10008, 10013, 10010
	errBadSession, errSeqMisordered, errRetryUncached, errSeqFalseRetry     = 10052, 10063, 10068, 10076
	errDeadSession, errStaleClientid, errConnNotBound, errStaleStateid      = 10078, 10022, 10055, 10023
	errBadStateid, errExpired, errCompleteAlready, errInterrupted, errTimed = 10025, 10011, 10054, 1 << 30, 1<<30 + 1
)

// enc encodes the operations of a compound.
type enc struct {
	b []byte
	n uint32 // operations

	// The reply may exceed what a server stores for repeated requests (ca_maxresponsesize_cached).
	longReply bool
}

func (e *enc) u32(vs ...uint32) *enc {
	for _, v := range vs {
		e.b = binary.BigEndian.AppendUint32(e.b, v)
	}
	return e
}

func (e *enc) u64(v uint64) *enc { e.b = binary.BigEndian.AppendUint64(e.b, v); return e }

func (e *enc) raw(p []byte) *enc { e.b = append(e.b, p...); return e }

func (e *enc) str(s string) *enc { return e.bytes([]byte(s)) }

func (e *enc) bytes(p []byte) *enc {
	e.u32(uint32(len(p))).b = append(e.b, p...)
	e.b = append(e.b, make([]byte, -len(p)&3)...)
	return e
}

// op begins an operation.
func (e *enc) op(code uint32, args ...uint32) *enc {
	e.n++
	e.longReply = e.longReply || code == opRead || code == opReaddir || code == opReadlink
	return e.u32(code).u32(args...)
}

// fh sets the current file handle.
func (e *enc) fh(fh string) *enc { return e.op(opPutfh).str(fh) }

// dec decodes the results of a compound. After an error, it yields zeros.
type dec struct {
	b      []byte
	st     uint32 // status of the first operation that failed
	resent bool   // the server may have executed it already, before it restarted
}

func (d *dec) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.b, d.st = nil, 5
		return make([]byte, max(0, min(n, 1<<16)))
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *dec) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }

func (d *dec) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

func (d *dec) bytes() []byte {
	n := int(d.u32())
	p := d.take(n)
	d.take(-n & 3)
	return p
}

func (d *dec) bitmap() (m [3]uint32) {
	for i, n := uint32(0), d.u32(); i < n && d.st == 0; i++ {
		if v := d.u32(); i < 3 {
			m[i] = v
		}
	}
	return
}

// op reads the heads of n results; false once one has failed.
func (d *dec) op(n int) bool {
	for ; n > 0 && d.st == 0; n-- {
		d.u32()
		if st := d.u32(); d.st == 0 {
			d.st = st
		}
	}
	return d.st == 0
}

// peek returns the status of the first operation after those that only select files.
func peek(b []byte) uint32 {
	for len(b) >= 8 {
		op, st := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if st != 0 || (op != opPutfh && op != opSavefh && op != opPutrootfh) {
			return st
		}
		b = b[8:]
	}
	return 0
}
