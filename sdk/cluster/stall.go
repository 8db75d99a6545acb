package cluster

import (
	"slices"
	"strings"
)

// Code is the stable word for a reason to wait. A third-party plugin's codes are prefixed with its name and a dot.
type Code string

// The codes of Setpoint itself. docs/STALLS.md says of each what causes it and what to do.
const (
	CodeConstraint            Code = "constraint"
	CodeInsufficientResources Code = "insufficient_resources"
	CodePortTaken             Code = "port_taken"
	CodeOnePerNode            Code = "one_per_node"
	CodeNoNodes               Code = "no_nodes"
	CodeNodePaused            Code = "node_paused"
	CodeNodeDraining          Code = "node_draining"
	CodeNodeSilent            Code = "node_silent"
	CodeNodeDown              Code = "node_down"
	CodeWaitingForBudget      Code = "waiting_for_budget"
	CodeWaitingForReplacement Code = "waiting_for_replacement"
	CodeWaitingForStop        Code = "waiting_for_stop"
	CodeWaitingForTurn        Code = "waiting_for_turn"
	CodeWaitingForAgent       Code = "waiting_for_agent"
	CodePlacedRecently        Code = "placed_recently"
	CodeUnhealthy             Code = "unhealthy"
	CodeRestartDelay          Code = "restart_delay"
	CodeRestartBudgetUsed     Code = "restart_budget_used"
	CodeUpdatePaused          Code = "update_paused"
	CodeMassEviction          Code = "mass_eviction"
	CodeMassSilence           Code = "mass_silence"
	CodePluginPending         Code = "plugin_pending"
	CodePluginUnavailable     Code = "plugin_unavailable"
	CodePluginTimeout         Code = "plugin_timeout"
	CodePluginError           Code = "plugin_error"
	CodePluginInvalid         Code = "plugin_invalid"
	CodeUnknownJobType        Code = "unknown_job_type"
	CodeJobTypeTaken          Code = "job_type_taken"
	CodeAddressPoolExhausted  Code = "address_pool_exhausted"
	CodeNotificationFailed    Code = "notification_failed"
	CodeNoDriver              Code = "no_driver"
	CodeNoSecrets             Code = "no_secrets"
	CodeAuditUnavailable      Code = "audit_unavailable"
	CodeOlderCopy             Code = "older_copy"
	CodeNetCaught             Code = "net_caught"
)

// SubjectKind is what a stall belongs to.
type SubjectKind string

// The kinds of subject. A group is what is placed together: its stall is stored once and shown on each of its waiting tasks.
const (
	SubjectTask    SubjectKind = "task"
	SubjectGroup   SubjectKind = "group"
	SubjectSlot    SubjectKind = "slot"
	SubjectJob     SubjectKind = "job"
	SubjectUpdate  SubjectKind = "update"
	SubjectNode    SubjectKind = "node" // its drain
	SubjectPlugin  SubjectKind = "plugin"
	SubjectCluster SubjectKind = "cluster"
)

// Subject names what waits.
type Subject struct {
	Kind SubjectKind
	ID   string
}

func (s Subject) String() string { return string(s.Kind) + ":" + s.ID }

// Job returns the job that the subject belongs to, or "" if it belongs to none.
func (s Subject) Job() string {
	job := ""
	switch s.Kind {
	case SubjectJob, SubjectUpdate:
		job = s.ID
	case SubjectSlot, SubjectTask:
		job, _, _ = strings.Cut(s.ID, "/")
	case SubjectGroup:
		job, _, _ = strings.Cut(s.ID, "@")
	case SubjectNode, SubjectPlugin, SubjectCluster:
	}
	return job
}

// Stall is a non-terminal error: why something cannot advance now, since when, and what would clear it. It goes when its cause goes, and is never mixed with
// a task's message (how it got here) or err (why it ended).
type Stall struct {
	Subject Subject
	Source  string // "placement", "reconcile", "monitor", or a plugin's name
	Code    Code
	Message string
	Since   Time // when the waiting began
	Changed Time // when code or counts last changed
	Facts   Facts
	Clears  string // what would end it
}

// Facts are what a stall rests on: how many nodes were looked at, and what excluded each of them.
type Facts struct {
	Nodes    int
	Excluded []Exclusion // in the order in which they are looked at; counts sum to Nodes
}

// Exclusion is one reason that excludes nodes.
type Exclusion struct {
	Source string // "core", or the filter's name
	Code   Code
	Detail string // such as the failing constraint, or "cpu"
	Count  int
}

// Same reports whether t says what s says, leaving aside when.
func (s *Stall) Same(t *Stall) bool {
	return s.Subject == t.Subject && s.Source == t.Source && s.Code == t.Code && s.Message == t.Message && s.Clears == t.Clears &&
		s.Facts.Nodes == t.Facts.Nodes && slices.Equal(s.Facts.Excluded, t.Facts.Excluded)
}

// Key is what makes a stall the same waiting as before: what waits and who says so; except for what the core itself says, also why.
func (s *Stall) Key() string {
	if s.Source == SourcePlacement {
		return s.Subject.String() + "|" + s.Source
	}
	return s.Subject.String() + "|" + s.Source + "|" + string(s.Code)
}

// SourcePlacement is the source of the one stall that says what keeps a task from every node.
const SourcePlacement = "placement"

// SourceCore is the source of what reconcile, monitor and engine say.
const SourceCore = "core"
