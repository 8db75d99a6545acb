package cluster

// Request is a command that was carried out under a key which its caller chose, so that asking again under the key carries nothing out a second time.
type Request struct {
	By       string // who asked
	Key      string // unique among his
	Digest   string // of what was asked: the same key with another command is a mistake
	Revision Revision
	At       Time
	Outcomes []Outcome // one for each job, task or node that the command was about, in its order
}

// Outcome is what came of a command for one job, task or node.
type Outcome struct {
	ID      string // name of a job, id of a task or node, name of a plugin
	Version uint64 // of a job, after the command
	Changed bool
}

// ID returns what names a request: who asked and the key.
func (r *Request) ID() string { return RequestID(r.By, r.Key) }

// RequestID returns the ID of the request that somebody made under a key.
func RequestID(by, key string) string { return by + "/" + key }
