package engine

import (
	"fmt"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// For how long, in engine time, and how many requests are remembered. The oldest give way.
const (
	RequestLife = 24 * time.Hour
	MaxRequests = 4096
)

// expiredAtOnce is how many expired requests are forgotten with a new one at most, so that one command does not fill a turn.
const expiredAtOnce = 16

// Keyed is an operation that is carried out once under a key of who asks. Asking again under the key gives a *Repeated.
type Keyed struct {
	Op
	Key    string
	Digest string // of what is asked: the key with another digest is refused as KeyReused
}

// Repeated is the error of an operation that was carried out before under its key. Nothing was changed now.
type Repeated struct{ Request *cluster.Request }

func (r *Repeated) Error() string {
	return fmt.Sprintf("this was asked before with the key %s, and carried out at revision %d", r.Request.Key, r.Request.Revision)
}

// Request returns what somebody asked under a key, or nil if that is not known, or not any more.
func (s *State) Request(by, key string) *cluster.Request {
	r, ok := s.requests.Get(cluster.RequestID(by, key))
	if !ok || s.Now.Sub(r.At) >= RequestLife {
		return nil
	}
	return r
}

// Again returns what is to be said of a request whose key was used before: a *Repeated, or that the key was for something else.
func Again(r *cluster.Request, digest string) error {
	if r.Digest != digest {
		return &OpError{
			Kind: KeyReused, Message: fmt.Sprintf("the key %s was used for something else, at revision %d", r.Key, r.Revision), Hint: "make a key of its own for each command",
		}
	}
	return &Repeated{r}
}

// once carries out a command, unless it was carried out before under its key.
func (e *Engine) once(c command, now cluster.Time) (any, error) {
	if c.key == "" || asks(c.op) {
		return e.operate(c, now)
	}
	if r := e.work.Request(c.by, c.key); r != nil {
		return nil, Again(r, c.digest)
	}
	v, err := e.operate(c, now)
	if err != nil {
		return nil, err
	}
	if r, ok := v.(NodeResult); ok && r.More {
		return v, nil
	}
	e.forgetOldRequests(now)
	e.apply(cluster.AuthorEngine, cluster.PutRequest{Request: &cluster.Request{
		By: c.by, Key: c.key, Digest: c.digest, Revision: e.rev, At: now, Outcomes: outcomes(v),
	}})
	return v, nil
}

// forgetOldRequests makes room for one more.
func (e *Engine) forgetOldRequests(now cluster.Time) {
	for range expiredAtOnce {
		_, id, ok := e.requestsByAge.Min()
		if !ok {
			return
		}
		r, _ := e.work.requests.Get(id)
		if now.Sub(r.At) < RequestLife && e.work.requests.Len() < MaxRequests {
			return
		}
		e.apply(cluster.AuthorEngine, cluster.RemoveRequest{ID: id})
	}
}

// applyRequest makes a change to what is remembered of requests.
func (e *Engine) applyRequest(c cluster.Change) {
	var id string
	var put *cluster.Request
	switch c := c.(type) {
	case cluster.PutRequest:
		id, put = c.Request.ID(), c.Request
	case cluster.RemoveRequest:
		id = c.ID
	}
	if old, ok := e.work.requests.Get(id); ok {
		e.requestsByAge.Delete(age(old))
		e.work.requests.Delete(id)
	}
	if put != nil {
		e.requestsByAge.Set(age(put), id)
		e.work.requests.Set(id, put)
	}
	e.touch(recordRequest, id)
}

// age orders requests, oldest first.
func age(r *cluster.Request) string { return fmt.Sprintf("%020d/%s", r.Revision, r.ID()) }

// outcomes returns what came of an operation, as it is remembered.
func outcomes(result any) []cluster.Outcome {
	switch r := result.(type) {
	case JobResult:
		return []cluster.Outcome{{ID: r.Job.Name, Version: r.Job.Control.Version, Changed: r.Changed}}
	case TaskResult:
		return []cluster.Outcome{{ID: string(r.Task.ID), Changed: r.Changed}}
	case NodeResult:
		if r.Node == nil {
			return []cluster.Outcome{{Changed: r.Changed}}
		}
		return []cluster.Outcome{{ID: string(r.Node.ID), Changed: r.Changed}}
	case []NodeResult:
		var out []cluster.Outcome
		for _, x := range r {
			out = append(out, outcomes(x)...)
		}
		return out
	}
	return nil
}
