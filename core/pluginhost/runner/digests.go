package runner

import (
	"sync"
	"time"
)

// digests remembers the hashes of executables that were not pinned, so that a plugin which ended is back sooner. Safe for use by several goroutines.
type digests struct {
	mu    sync.Mutex // guards known
	known map[stamp][digestSize]byte
}

const (
	maxDigests = 64
	// settled is how long ago a file must have changed for its stamp to tell any later change: the clock of files is coarse.
	settled = 2 * time.Second
)

// get returns the hash of a file with that stamp, if it is known.
func (d *digests) get(s stamp) (sum [digestSize]byte, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum, known = d.known[s]
	return sum, known
}

// put remembers the hash of a file that had the stamp before and after it was read.
func (d *digests) put(s stamp, sum [digestSize]byte, now time.Time) {
	if now.Sub(time.Unix(s.ctimeSec, s.ctimeNsec)) < settled {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDigests {
		d.known = make(map[stamp][digestSize]byte)
	}
	d.known[s] = sum
}
