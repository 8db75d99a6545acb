package config

import (
	"io"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Config is what the daemon's files say, with defaults for the rest. A server reads all of it but Agent, an agent reads Agent and Log.
type Config struct {
	Name      string // of this server, for people; default: the machine's host name
	DataDir   string // where the server keeps its state and certificates; default /var/lib/setpoint
	Advertise string // HOST:PORT at which agents and people reach this server; default: where it listens

	RecordInputs string // the file to which all that the engine is given is written, for `setpoint replay`; "": none. It holds all that jobs say, and is bounded

	Log       Log
	Listen    Listen
	TLS       TLS
	Dashboard Dashboard
	Store     Store
	Heartbeat Heartbeat
	Replace   Replace
	Placement Placement
	Limits    Limits
	Audit     Audit
	Telemetry Telemetry
	Pools     []Pool   // in the order of their names
	Secrets   []Secret // in the order of their names
	Notify    []Notify // in the order in which they stand
	Plugins   []Plugin // by name; the built-in ones are there without being named
	Agent     *Agent   // nil: the files have no agent block

	files  map[string]*hcl.File
	ranges hcltext.Ranges
	unsaid []string
}

// Log says how the daemon logs.
type Log struct {
	Level string // trace, debug, info, warn or error; default info
	JSON  bool   // one JSON object a line
}

// Listen says where the daemon listens.
type Listen struct {
	API string // HOST:PORT of the API and the metrics; default 127.0.0.1:7480. Port 0 is any free one
}

// TLS says what is to be in the server's certificate, and which authority issues it and all others.
type TLS struct {
	Names     []string // host names and addresses by which the server is reached, besides those of Listen and Advertise
	Authority Authority
}

// Authority are files with the cluster's authority, which somebody else signed; none: the server makes one.
type Authority struct {
	Certificate string // its certificate, followed by those that lead to its root
	Key         string
}

// Dashboard says where the dashboard is served.
type Dashboard struct {
	Listen      string // HOST:PORT; port 0 is any free one. "": there is no dashboard
	Advertise   string // HOST:PORT in the links that let people in; default: where it listens, or the host that the server advertises if it listens everywhere
	Certificate string // file with the certificate that browsers are shown, and those that lead to one they trust; "": the server's own
	Key         string // file with its key
}

// The kinds of store.
const (
	StoreBolt   = "bbolt"
	StoreMemory = "memory"
)

// Store says where the state is kept.
type Store struct {
	Kind          string // StoreBolt or StoreMemory; default bbolt
	File          string // of bbolt; default: state.db in the data directory
	MaxSize       int64  // bytes past which the file of bbolt does not grow; 0: no limit
	AnyFilesystem bool   // allow bbolt on file systems that may not keep what they acknowledged, such as NFS
	Retention     Retention
}

// Retention says how much of what happened is kept for those who watch from an earlier revision. What passes one bound is dropped.
type Retention struct {
	Revisions uint64        // default 100,000
	Age       time.Duration // counted while a server runs; default 10 minutes
	Bytes     int64         // default 64 MiB
}

// Heartbeat says when an agent counts as silent and its node as down.
type Heartbeat struct {
	Interval time.Duration // how often an agent is heard of; default 1 s
	Silent   time.Duration // without a word for so long a node is silent; default two intervals
	Grace    time.Duration // without a word for so long a node is down and its tasks are replaced; default three intervals

	PerSecond        int // agents heard a second; with more nodes all three are longer in the same proportion; 0: no limit; default 500
	ReturnsPerSecond int // agents that come back a second after the server's start, for which all nodes get more grace then; 0: none; default 50
}

// Replace limits how fast the tasks of nodes that went down are replaced elsewhere.
type Replace struct {
	NodesPer time.Duration // those of at most one node in so long; 0, the default: of all at once
}

// Placement says how tasks are placed where jobs say nothing.
type Placement struct {
	Strategy cluster.Strategy // default spread
}

// Pool is a range of addresses that tasks can ask for.
type Pool struct {
	Name string
	CIDR string // as in 10.1.0.0/24
}

// Audit is the audit log: the bounds of its files, and what becomes of changes while it cannot be written.
type Audit struct {
	FileSize  int64        // bytes of one file; default 16 MiB
	Files     int          // that are kept; default 10
	OnFailure AuditFailure // default AuditRefuse
}

// AuditFailure says what becomes of calls that change something while the audit log cannot be written.
type AuditFailure string

// What may become of them.
const (
	AuditRefuse   AuditFailure = "refuse"
	AuditContinue AuditFailure = "continue"
)

// Secret is a secret whose value is the content of a file on the server.
type Secret struct {
	Name string
	File string // absolute
}

// Limits bound what is done at a time.
type Limits struct {
	TurnChanges int // changes decided in one turn, about; default 4,000
}

// OnFailure says what a filter that cannot answer means for tasks that it has not judged.
type OnFailure string

// The answers to a filter that cannot answer.
const (
	FailureStall  OnFailure = "stall"  // they are not placed; the default
	FailureIgnore OnFailure = "ignore" // they are placed as if the filter were not there
)

// Plugin says how one plugin is run.
type Plugin struct {
	Name             string
	Builtin          bool              // part of this executable
	Disabled         bool              // not run at all; the way to do without a built-in one
	Path             string            // of the executable, absolute, unless it is built in
	SHA256           string            // what the executable must hash to, in hex; "": anything
	Args             []string          //
	Env              map[string]string // set for the plugin, which inherits next to nothing
	Timeout          time.Duration     // for one answer; default 5 s
	HandshakeTimeout time.Duration     // from the start of the process to its first answer; default 5 s
	OnFailure        OnFailure
	MaxMemory        int64  // bytes that it and its children may use; 0: no limit
	User             string // name or number of the user as whom it runs; "": one of its own where the server is root, otherwise the server's
	Sandbox          Sandbox
	Config           hcl.Body // its config block, or an empty body in its place; for DecodePluginConfig
}

// Agent says how this machine takes part in a cluster.
type Agent struct {
	Server     string            // HOST:PORT of a server
	TokenFile  string            // a file with the join token; read once, at the first start
	Name       string            // of the node; default: the machine's host name
	DataDir    string            // default /var/lib/setpoint-agent
	Labels     map[string]string // of the node when it joins; later they are the operator's
	Attributes map[string]string // of the node; they go before those that the agent finds

	SecretsDir    string            // where secrets are kept in memory; "": a directory of the agent's own in /dev/shm
	AttributesDir string            // of scripts that find further attributes; "": none
	Drivers       []string          // offered; default: process
	Capacity      cluster.Resources // instead of what the agent finds: cpu and memory if not 0, and named units
	TaskLogs      TaskLogs
	Process       ProcessDriver
	Docker        Docker
}

// TaskLogs bounds the output that is kept of one task's stream where its job says nothing.
type TaskLogs struct {
	FileSize int64 // bytes of one file, 64 KiB at least; default 10 MiB
	Files    int   // 2 at least; default 4
}

// ProcessDriver is how an agent runs tasks as processes.
type ProcessDriver struct {
	Enforce      Enforce // of limits that the machine cannot enforce; default EnforceBestEffort
	CgroupParent string  // path below which the control groups of tasks are made; default: below those of the agent
}

// Enforce says what becomes of a task with limits that a machine cannot enforce.
type Enforce string

// The policies.
const (
	EnforceBestEffort Enforce = "best_effort" // it runs, and says what is not enforced
	EnforceRequired   Enforce = "required"    // it is refused
)

// Plugin returns the named plugin's settings, or nil if there is none of that name.
func (c *Config) Plugin(name string) *Plugin {
	for i := range c.Plugins {
		if c.Plugins[i].Name == name {
			return &c.Plugins[i]
		}
	}
	return nil
}

// Problem returns an error about the setting at a path, such as listen.api or plugin["cel"].sha256, or about the nearest of what it lies in.
func (c *Config) Problem(path, summary, detail string) hcl.Diagnostics {
	at, ok := c.ranges.Find(path)
	if !ok {
		return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: detail}}
	}
	return hcl.Diagnostics{hcltext.Error(at, summary, detail)}
}

// Write writes diagnostics about the files, each with the lines that it is about.
func (c *Config) Write(w io.Writer, diags hcl.Diagnostics, look hcltext.Look) error {
	return hcltext.Write(w, c.files, diags, look)
}
