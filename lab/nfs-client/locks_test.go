package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// What is recorded must be what a byte-by-byte model holds: a restarted server is given these ranges.
func TestRecordedLocksAreThoseGranted(t *testing.T) {
	const size = 40
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		owner, model := lockOwner{}, [size]uint32{}
		for range 30 {
			start := uint64(random.IntN(size))
			end := start + uint64(random.IntN(size-int(start)))
			kind := uint32(random.IntN(3))
			owner.set(lockRange{start, end, kind})
			for at := start; at <= end; at++ {
				model[at] = kind
			}
			recorded := [size]uint32{}
			for _, r := range owner.held {
				for at := r.start; at <= r.end; at++ {
					if recorded[at] != 0 {
						t.Fatalf("byte %d is recorded twice: %v", at, owner.held)
					}
					recorded[at] = r.kind
				}
			}
			if recorded != model {
				t.Fatalf("recorded %v, granted %v", recorded, model)
			}
		}
	}
}

func TestALockToTheEndHasTheGreatestLength(t *testing.T) {
	for _, c := range []struct {
		r      lockRange
		length uint64
	}{{lockRange{0, math.MaxInt64, 2}, math.MaxUint64}, {lockRange{7, math.MaxInt64, 1}, math.MaxUint64}, {lockRange{3, 3, 1}, 1}} {
		d := &dec{b: new(enc).span(c.r).b}
		if start, length := d.u64(), d.u64(); start != c.r.start || length != c.length {
			t.Errorf("%v: %d, %d", c.r, start, length)
		}
	}
}
