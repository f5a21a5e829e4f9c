package main

// ONC RPC over TCP.

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// cred identifies a caller by AUTH_SYS: user, group, up to 16 further groups.
type cred struct {
	uid, gid uint32
	groups   string // encoded: count and numbers
}

// transport is one TCP connection with the calls that wait for replies.
type transport struct {
	net.Conn
	mu   sync.Mutex
	pend map[uint32]chan []byte
	dead chan struct{}
}

// reader delivers replies until the connection breaks.
func (t *transport) reader(alive func()) {
	defer close(t.dead)
	defer func() { _ = t.Close() }()
	for {
		var msg []byte
		for last := false; !last; {
			var head [4]byte
			if _, err := io.ReadFull(t, head[:]); err != nil {
				return
			}
			n := binary.BigEndian.Uint32(head[:])
			last = n>>31 == 1
			part := make([]byte, n&(1<<31-1))
			if _, err := io.ReadFull(t, part); err != nil {
				return
			}
			if msg == nil && last {
				msg = part
			} else {
				msg = append(msg, part...)
			}
		}
		if len(msg) < 24 {
			return
		}
		alive()
		xid := binary.BigEndian.Uint32(msg)
		t.mu.Lock()
		if ch := t.pend[xid]; ch != nil {
			ch <- msg[4:]
			delete(t.pend, xid)
		}
		t.mu.Unlock()
	}
}

// send executes one RPC on one connection.
func (c *client) send(t *transport, cr cred, seq, e *enc, timeout time.Duration) (*dec, error) {
	c.stat.Lock()
	c.xid++
	xid := c.xid
	c.stat.Unlock()
	groups := cr.groups
	if groups == "" {
		groups = "\x00\x00\x00\x00"
	}
	host, _ := os.Hostname()
	auth := new(enc).u32(0).str(host).u32(cr.uid, cr.gid).raw([]byte(groups))
	m := new(enc).u32(0, xid, 0, 2, 100003, 4, 1, 1).bytes(auth.b).u32(0, 0, 0, 1, seq.n+e.n).raw(seq.b)
	binary.BigEndian.PutUint32(m.b, 1<<31|uint32(len(m.b)-4+len(e.b)))
	ch := make(chan []byte, 1)
	t.mu.Lock()
	t.pend[xid] = ch
	_ = t.SetWriteDeadline(time.Now().Add(timeout))
	_, err := (&net.Buffers{m.b, e.b}).WriteTo(t.Conn)
	t.mu.Unlock()
	if err != nil {
		_ = t.Close()
		return nil, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case msg := <-ch:
		d := &dec{b: msg}
		d.u32()
		if d.u32() != 0 { // RPC denied
			return &dec{st: 13}, nil
		}
		d.u32()
		d.bytes()
		if d.u32() != 0 {
			return &dec{st: 5}, nil
		}
		d.u32() // of the compound; the operations have their own
		d.bytes()
		d.u32()
		return d, nil
	case <-t.dead:
		return nil, errors.New("connection lost")
	case <-timer.C:
		_ = t.Close()
		return nil, errors.New("no reply")
	}
}
