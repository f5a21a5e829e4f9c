package main

// NFSv4.1 sessions (RFC 8881): one connection, requests on slots, recovery after a restart of the server.

import (
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// slot admits one request at a time; the server stores its last reply.
type slot struct {
	id, seq uint32
	gen     int // session that seq belongs to
}

// client is an NFSv4.1 client with one session, which it replaces when it is lost.
type client struct {
	addr, owner string
	verifier    uint64
	mu          sync.Mutex // guards connection and session
	t           *transport
	gen         int  // of the session
	have        bool // whether there is a session
	sid         []byte
	clientid    uint64
	slots       chan *slot
	maxIO       int
	reclaim     func(func(cred, *enc) *dec) // called for a new session, before RECLAIM_COMPLETE

	stat    sync.Mutex
	xid     uint32
	waiting int
	since   time.Time
}

// newClient returns a client that connects at its first call.
func newClient(addr string) *client {
	now := time.Now()
	host, _ := os.Hostname()
	c := &client{addr: addr, verifier: uint64(now.UnixNano()), slots: make(chan *slot, 32)}
	for i := range cap(c.slots) {
		c.slots <- &slot{id: uint32(i + 1)} // 0 is for reclaims
	}
	c.owner = strings.Join([]string{"mount.nfs", host, fmt.Sprint(os.Getpid()), fmt.Sprint(now.UnixNano())}, "/")
	return c
}

// busy counts waiting calls, and notes when the server last replied.
func (c *client) busy(delta int) {
	c.stat.Lock()
	c.waiting += delta
	c.since = time.Now()
	c.stat.Unlock()
}

// down returns for how long calls have been waiting without any reply.
func (c *client) down() time.Duration {
	c.stat.Lock()
	defer c.stat.Unlock()
	if c.waiting == 0 {
		return 0
	}
	return time.Since(c.since)
}

// session returns a connection with a session; it retries until the server responds.
func (c *client) session() (*transport, int, []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for wait := time.Duration(0); ; wait = min(wait*2+50*time.Millisecond, time.Second) {
		if c.t != nil {
			select {
			case <-c.t.dead:
				c.t = nil
			default:
				if c.have {
					return c.t, c.gen, c.sid
				}
			}
		}
		time.Sleep(wait)
		if err := c.connect(); err != nil {
			if wait == 0 {
				log.Printf("%s: %v, retrying", c.addr, err)
			}
			if c.t != nil {
				_ = c.t.Close()
			}
			c.t = nil
		}
	}
}

// connect opens a connection and, where there is none, a session.
func (c *client) connect() error {
	if c.t == nil {
		conn, err := (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 10 * time.Second}).Dial("tcp", c.addr)
		if err != nil {
			return err
		}
		t := &transport{Conn: conn, pend: map[uint32]chan []byte{}, dead: make(chan struct{})}
		go func() {
			t.reader(func() { c.busy(0) })
			c.do(cred{}, new(enc).op(opPutrootfh)) // reconnect at once: locks can be reclaimed in the grace period only
		}()
		c.t = t
	}
	if c.have {
		return nil
	}
	const wait = 10 * time.Second
	none := new(enc)
	d, err := c.send(c.t, cred{}, none, new(enc).op(opExchangeID).u64(c.verifier).str(c.owner).u32(0, 0, 0), wait)
	if err != nil {
		return err
	}
	if !d.op(1) {
		return fmt.Errorf("EXCHANGE_ID: %d", d.st)
	}
	c.clientid = d.u64()
	e := new(enc).op(opCreateSession).u64(c.clientid).u32(d.u32(), 0)
	e.u32(0, 1<<20+8192, 1<<20+8192, 8192, 16, uint32(cap(c.slots)+1), 0).u32(0, 4096, 4096, 4096, 2, 1, 0).u32(0x40000000, 1, 0)
	if d, err = c.send(c.t, cred{}, none, e, wait); err != nil {
		return err
	}
	if !d.op(1) {
		return fmt.Errorf("CREATE_SESSION: %d", d.st)
	}
	c.sid = d.take(16)
	d.take(12) // sequence, flags, padding
	maxReq, maxRes := int(d.u32()), int(d.u32())
	d.take(8)
	if slots := int(d.u32()); slots <= cap(c.slots) {
		return fmt.Errorf("the server grants only %d slots", slots)
	}
	c.maxIO = min(1<<20, (min(maxReq, maxRes)-2048)&^4095)
	c.gen++
	seq := uint32(0)
	do := func(cr cred, e *enc) *dec {
		for {
			seq++
			s := new(enc).op(opSequence).raw(c.sid).u32(seq, 0, 0, 0)
			d, err := c.send(c.t, cr, s, e, wait)
			if err != nil {
				return &dec{st: errDelay}
			}
			if d.op(1); d.st == 0 {
				d.take(36)
			}
			return d
		}
	}
	if c.reclaim != nil {
		c.reclaim(do)
	}
	if d = do(cred{}, new(enc).op(opReclaimComplete, 0)); !d.op(1) && d.st != errCompleteAlready {
		return fmt.Errorf("RECLAIM_COMPLETE: %d", d.st)
	}
	c.have = true
	return nil
}

// lost marks a session as unusable.
func (c *client) lost(gen int) {
	c.mu.Lock()
	if c.gen == gen && c.have {
		c.have = false
		log.Printf("%s: session lost, creating another", c.addr)
	}
	c.mu.Unlock()
}

// do executes a compound; it retries until the server has replied.
func (c *client) do(cr cred, e *enc) *dec {
	c.busy(1)
	defer c.busy(-1)
	s := <-c.slots
	defer func() { c.slots <- s }()
	fresh, sent, resent := true, false, false
	cache := uint32(1) // a request that is sent again must not be executed again
	if e.longReply {
		cache = 0
	}
	for wait := 20 * time.Millisecond; ; {
		t, gen, sid := c.session()
		if s.gen != gen {
			s.gen, s.seq, resent = gen, 0, resent || sent
			fresh = true
		}
		if fresh {
			s.seq++
		}
		fresh = false
		seq := new(enc).op(opSequence).raw(sid).u32(s.seq, s.id, uint32(cap(c.slots)), cache)
		d, err := c.send(t, cr, seq, e, time.Minute)
		sent = true
		if err != nil {
			continue
		}
		d.op(1)
		switch d.st {
		case 0:
			d.take(36)
			d.resent = resent
		case errBadSession, errDeadSession, errStaleClientid, errConnNotBound, errSeqMisordered:
			c.lost(gen)
			continue
		case errRetryUncached, errSeqFalseRetry:
			fresh, resent = true, true
			continue
		case errDelay:
			time.Sleep(wait)
			continue
		default:
			return d
		}
		if st := peek(d.b); st == errDelay || st == errGrace {
			time.Sleep(wait)
			wait = min(wait*2, 500*time.Millisecond)
			fresh, sent = true, resent
			continue
		}
		return d
	}
}
