package engine

import (
	"cmp"
	"time"

	"github.com/tidwall/btree"
)

// alarms are the engine times at which jobs are to be looked at again, the soonest first.
type alarms struct {
	at    map[string]time.Duration
	order *btree.BTreeG[alarm]
}

type alarm struct {
	at  time.Duration
	job string
}

func newAlarms() alarms {
	less := func(a, b alarm) bool { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.job, b.job)) < 0 }
	return alarms{at: map[string]time.Duration{}, order: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// set has a job looked at at a time, and at no other.
func (a alarms) set(job string, at time.Duration) {
	a.drop(job)
	a.at[job] = at
	a.order.Set(alarm{at, job})
}

func (a alarms) drop(job string) {
	if at, ok := a.at[job]; ok {
		a.order.Delete(alarm{at, job})
		delete(a.at, job)
	}
}

// first returns the time of the soonest.
func (a alarms) first() (time.Duration, bool) {
	next, ok := a.order.Min()
	return next.at, ok
}

// due takes out a job whose time has come, if there is any.
func (a alarms) due(now time.Duration) (job string, ok bool) {
	next, ok := a.order.Min()
	if !ok || next.at > now {
		return "", false
	}
	a.drop(next.job)
	return next.job, true
}
