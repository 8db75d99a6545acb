package bench

import "time"

// What commands print with -o json, as far as tests look at it.

// Task is an element of `task ls`.
type Task struct {
	ID         string    `json:"id"`
	Job        string    `json:"job"`
	JobVersion uint64    `json:"job_version"`
	Slot       string    `json:"slot"`
	Node       string    `json:"node"`
	Desired    Desired   `json:"desired"`
	Observed   Observed  `json:"observed"`
	Condition  Condition `json:"condition"`
	Stalls     []Stall   `json:"stalls"`
	Phase      string    `json:"phase"`
	Dead       bool      `json:"dead"`
	Created    time.Time `json:"created"`
	Ports      []Port    `json:"ports"`
}

// Running reports whether the task is wanted, was observed running, and nothing speaks against that.
func (t Task) Running() bool {
	return t.Observed.State == "running" && t.Condition.State == "ok" && t.Desired.State == "running"
}

// Waiting reports whether the task is wanted and has no node.
func (t Task) Waiting() bool { return !t.Dead && t.Node == "" && t.Desired.State == "running" }

// Desired is what a task should become.
type Desired struct {
	State  string    `json:"state"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// Observed is what the task's agent said.
type Observed struct {
	State    string     `json:"state"`
	Message  string     `json:"message"`
	Err      string     `json:"err"`
	ExitCode int        `json:"exit_code"`
	At       *time.Time `json:"at"`
}

// Condition is what the server infers.
type Condition struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// Port is a port that was granted.
type Port struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
}

// Subject is what waits.
type Subject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// Stall is an element of `stalls`, and of a task's stalls.
type Stall struct {
	Subject Subject   `json:"subject"`
	Job     string    `json:"job"`
	Slot    string    `json:"slot"`
	Task    string    `json:"task"`
	Node    string    `json:"node"`
	Code    string    `json:"code"`
	Source  string    `json:"source"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	Changed time.Time `json:"changed"`
	Facts   Facts     `json:"facts"`
	Nearest string    `json:"nearest"`
	Clears  string    `json:"clears"`
}

// Facts are the counts behind a stall.
type Facts struct {
	Nodes    int         `json:"nodes"`
	Excluded []Exclusion `json:"excluded"`
}

// Counts returns how many nodes each code excludes.
func (f Facts) Counts() map[string]int {
	out := make(map[string]int)
	for _, e := range f.Excluded {
		out[e.Code] += e.Count
	}
	return out
}

// Exclusion is one reason that excludes nodes.
type Exclusion struct {
	Source string   `json:"source"`
	Code   string   `json:"code"`
	Detail string   `json:"detail"`
	Count  int      `json:"count"`
	Nodes  []string `json:"nodes"`
}

// Resources is what a node has.
type Resources struct {
	CPU    float64          `json:"cpu"`
	Memory int64            `json:"memory"`
	Units  map[string]int64 `json:"units"`
}

// Node is an element of `node ls`.
type Node struct {
	ID             string            `json:"id"`
	Name           string            `json:"name"`
	State          string            `json:"state"`
	Availability   string            `json:"availability"`
	Labels         map[string]string `json:"labels"`
	Capacity       Resources         `json:"capacity"`
	Used           Resources         `json:"used"`
	Free           Resources         `json:"free"`
	Tasks          int               `json:"tasks"`
	Ports          []Port            `json:"ports"`
	Drain          *Drain            `json:"drain"`
	Decommissioned bool              `json:"decommissioned"`
	Holders        []Holder          `json:"holders"` // of `node inspect`
	Pools          []Pool            `json:"pools"`   // of `node inspect`
}

// Holder is a task with what it takes of its node.
type Holder struct {
	Task      string    `json:"task"`
	Reserves  Resources `json:"reserves"`
	Ports     []Port    `json:"ports"`
	Addresses []Address `json:"addresses"`
}

// Address is an address of a pool.
type Address struct {
	Pool    string `json:"pool"`
	Address string `json:"address"`
}

// Pool is how full a pool of addresses is.
type Pool struct {
	Name  string `json:"name"`
	Total int64  `json:"total"`
	Used  int64  `json:"used"`
}

// Drain is how far a drain has come.
type Drain struct {
	State string `json:"state"`
	Left  int    `json:"left"`
	Lost  int    `json:"lost"`
}

// Plugin is an element of `plugin ls`.
type Plugin struct {
	Name     string  `json:"name"`
	State    string  `json:"state"`
	PID      int     `json:"pid"`
	Restarts int     `json:"restarts"`
	Message  string  `json:"message"`
	Stalls   []Stall `json:"stalls"`
}

// JobView is what `job inspect` prints.
type JobView struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`
	Version uint64    `json:"version"`
	Counts  JobCounts `json:"counts"`
	Update  *Update   `json:"update"`
	Stalls  []Stall   `json:"stalls"`
	Slots   []Slot    `json:"slots"`
}

// Update is how far a job's update has come.
type Update struct {
	State    string `json:"state"`
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	Message  string `json:"message"`
	Total    int    `json:"total"`
	Moved    int    `json:"moved"`
	Failures int    `json:"failures"`
	Waiting  int    `json:"waiting"`

	NotUpdated int `json:"not_updated"`
}

// JobCounts say how a job's slots stand.
type JobCounts struct {
	Wanted     int `json:"wanted"`
	Up         int `json:"up"`
	Held       int `json:"held"`
	Running    int `json:"running"`
	Stalled    int `json:"stalled"`
	Eligible   int `json:"eligible"`
	EligibleOf int `json:"eligible_of"`
}

// Slot is a place in a job.
type Slot struct {
	Key      string   `json:"key"`
	Nodes    []string `json:"nodes"`
	Up       bool     `json:"up"`
	Held     string   `json:"held"`
	Restarts int      `json:"restarts"`
	Backoff  int      `json:"backoff"`
}

// Status is what `status` prints.
type Status struct {
	PID      int    `json:"pid"`
	Revision uint64 `json:"revision"`
	Ready    bool   `json:"ready"`
}

// Event is an element of `events`.
type Event struct {
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Subject  Subject   `json:"subject"`
	Text     string    `json:"text"`
	Job      string    `json:"job"`
	Task     string    `json:"task"`
	Node     string    `json:"node"`
}

// Why is what `task why` prints.
type Why struct {
	Sentence string    `json:"sentence"`
	Nearest  string    `json:"nearest"`
	Clears   string    `json:"clears"`
	Exceeds  string    `json:"exceeds"`
	Nodes    []WhyNode `json:"nodes"`
}

// WhyNode is all that keeps a task from one node.
type WhyNode struct {
	Node    string      `json:"node"`
	Reasons []WhyReason `json:"reasons"`
}

// WhyReason is one reason.
type WhyReason struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}
