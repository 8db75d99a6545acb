package jobfile

import "github.com/setpointd/setpoint/sdk/cluster"

// Field is an attribute of a job file.
type Field struct {
	Block   string   // the way to its block, such as task.resources; "" is the job itself
	Name    string   //
	Kind    Kind     //
	Words   []string // of KindWord that takes these only
	Default string   // as it would be written; "" if nothing is what nothing said means
	Says    string   // what it is, a sentence without a full stop
}

// Kind is what is written as a field's value.
type Kind string

// The kinds of values.
const (
	KindText     Kind = "text"
	KindWord     Kind = "word"
	KindInt      Kind = "whole number"
	KindNumber   Kind = "number"
	KindDuration Kind = "duration"
	KindSize     Kind = "size"
	KindAmount   Kind = "number or percentage"
	KindTexts    Kind = "list of texts"
	KindTextMap  Kind = "map of texts"
	KindIntMap   Kind = "map of whole numbers"
	KindMap      Kind = "map"
)

// BlockKind is a block of a job file.
type BlockKind struct {
	Path     string
	Label    string // what its label is; "" without one
	Repeated bool
	Required bool
	Free     bool // anything goes in it
	Says     string
}

// Blocks returns the blocks of a job, each after the one that it stands in.
func Blocks() []BlockKind {
	return []BlockKind{
		{Path: "task", Required: true, Says: "What each slot of the job runs"},
		{Path: "task.resources", Says: "What is reserved for the task on its node"},
		{Path: "task.port", Label: "name", Repeated: true, Says: "A port of the node, told to the task as `SETPOINT_PORT_name`"},
		{Path: "task.secret", Label: "name", Repeated: true, Says: "A secret of the cluster, as a file in memory in the directory `SETPOINT_SECRETS_DIR`"},
		{Path: "task.address", Label: "name", Repeated: true, Says: "An address of a pool of the server's configuration, told to the task as `SETPOINT_ADDRESS_name`"},
		{Path: "task.stop", Says: "How the task is stopped"},
		{Path: "task.health", Says: "How to find out whether a running task does its work: exactly one of `exec`, `http` and `tcp`. Without it, running is healthy"},
		{Path: "spread", Repeated: true, Says: "Tasks are spread over the values of a node's attribute; of several, the first counts most"},
		{Path: "update", Says: "How slots move to a new version"},
		{Path: "restart", Says: "When a task that ended is replaced"},
		{Path: "plugin", Label: "name", Repeated: true, Free: true, Says: "Settings for a plugin, which says what may stand there"},
	}
}

func words[W ~string](list ...W) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// Fields returns the attributes of a job and its blocks.
func Fields() []Field {
	var out []Field
	for _, of := range [][]Field{jobReference(), taskReference(), healthReference(), paceReference()} {
		out = append(out, of...)
	}
	return out
}

func jobReference() []Field {
	return []Field{
		{Name: "type", Kind: KindText, Default: `"replicated"`, Says: "`replicated`, `global` (a task on every eligible node), `batch` and `global-batch` (tasks that end by themselves), or a type that a plugin serves"},
		{Name: "count", Kind: KindInt, Default: "1", Says: "Slots, of the types `replicated` and `batch`"},
		{Name: "parallelism", Kind: KindInt, Default: "0", Says: "Slots with a task at a time, of types whose tasks end by themselves; 0: all"},
		{Name: "priority", Kind: KindInt, Default: "50", Says: "0 to 100; higher is placed first"},
		{Name: "labels", Kind: KindTextMap, Says: "Labels of the job"},
		{Name: "constraints", Kind: KindTexts, Says: "Which nodes may run it; all must hold. Short for the same in `plugin \"constraint\"`"},
		{Name: "max_unavailable", Kind: KindAmount, Default: `"25%"`, Says: "How many slots may be away at a time because of updates, drains and moves"},
		{Name: "max_per_node", Kind: KindInt, Default: "0", Says: "Tasks of the job on one node; 0: no limit"},
		{Name: "on_drift", Kind: KindWord, Words: words(cluster.DriftMove, cluster.DriftKeep), Default: `"move"`, Says: "What becomes of a running task whose node no longer meets the constraints"},
		{Name: "on_lost", Kind: KindWord, Words: words(cluster.LostReplace, cluster.LostWait), Default: `"replace"`, Says: "What becomes of a task whose node is down"},
		{Name: "lost_after", Kind: KindDuration, Default: `"0s"`, Says: "How long a node must be down before its tasks are replaced"},
		{Name: "on_drain", Kind: KindWord, Words: words(cluster.DrainFirst, cluster.DrainLast), Says: "When tasks leave a node that is drained: global jobs are `last`, others `first`"},
		{Name: "strategy", Kind: KindWord, Words: words(cluster.StrategySpread, cluster.StrategyBinpack), Says: "How nodes are chosen that could all run a task; if not said, the cluster's own"},
		{Name: "history_limit", Kind: KindInt, Default: "5", Says: "Dead tasks kept for each slot"},
		{Block: "spread", Name: "attribute", Kind: KindText, Says: "`node.labels.KEY`, `node.attributes.KEY`, `node.id`, `node.name`, `node.hostname`, `node.os` or `node.arch`"},
		{Block: "spread", Name: "targets", Kind: KindIntMap, Says: "The percentage of tasks that each value should get; if not said, all alike"},
	}
}

func taskReference() []Field {
	return []Field{
		{Block: "task", Name: "driver", Kind: KindWord, Words: words(cluster.DriverProcess, cluster.DriverDocker, cluster.DriverSim), Default: `"process"`, Says: "What runs it: see PROCESS-DRIVER.md and DOCKER-DRIVER.md"},
		{Block: "task", Name: "command", Kind: KindTexts, Says: "The program and its arguments; of an image, in place of what it would run"},
		{Block: "task", Name: "dir", Kind: KindText, Says: "The working directory; if not said, one of the task's own, or the image's"},
		{Block: "task", Name: "user", Kind: KindText, Says: "A name or number, with `:group` if not its own; if not said, the agent's, or the image's"},
		{Block: "task", Name: "env", Kind: KindTextMap, Says: "Environment variables. They are kept and shown with the job, so no secrets belong there"},
		{Block: "task", Name: "config", Kind: KindMap, Says: "Settings of the driver"},
		{Block: "task.resources", Name: "cpu", Kind: KindNumber, Default: "0", Says: "Cores"},
		{Block: "task.resources", Name: "memory", Kind: KindSize, Default: "0", Says: "Memory, which is the limit as well"},
		{Block: "task.resources", Name: "units", Kind: KindIntMap, Says: "Named units that nodes have a number of, such as `{ gpu = 1 }`"},
		{Block: "task.port", Name: "static", Kind: KindInt, Says: "The port's number; if not said, any free one"},
		{Block: "task.secret", Name: "version", Kind: KindInt, Says: "Which of its versions; without it the newest when the job is submitted"},
		{Block: "task.secret", Name: "target", Kind: KindText, Says: "Name of the file; without it the secret's"},
		{Block: "task.secret", Name: "mode", Kind: KindText, Says: "Permissions of the file, as an octal number in quotes; without it `0400`"},
		{Block: "task.secret", Name: "owner", Kind: KindText, Says: "Whose the file is, as `UID` or `UID:GID`; without it who the task runs as"},
		{Block: "task.address", Name: "pool", Kind: KindText, Says: "The pool's name; required"},
		{Block: "task.stop", Name: "signal", Kind: KindText, Default: `"TERM"`, Says: "The signal that asks it to stop, with or without `SIG`"},
		{Block: "task.stop", Name: "grace", Kind: KindDuration, Default: `"10s"`, Says: "How long it may take until it is killed"},
		{Block: "task.stop", Name: "after_disconnect", Kind: KindDuration, Default: `"0s"`, Says: "The agent stops the task once it heard of no server for so long; 0: never"},
	}
}

func healthReference() []Field {
	return []Field{
		{Block: "task.health", Name: "exec", Kind: KindTexts, Says: "A command, which ends with 0 if all is well"},
		{Block: "task.health", Name: "http", Kind: KindText, Says: "A URL, in which variables such as `$SETPOINT_PORT_http` stand for their values"},
		{Block: "task.health", Name: "tcp", Kind: KindText, Says: "HOST:PORT to connect to, with variables as in `http`"},
		{Block: "task.health", Name: "interval", Kind: KindDuration, Default: `"10s"`, Says: "How often it is checked"},
		{Block: "task.health", Name: "timeout", Kind: KindDuration, Default: `"5s"`, Says: "How long one check may take"},
		{Block: "task.health", Name: "start_period", Kind: KindDuration, Default: `"0s"`, Says: "Failures so long after the start do not count"},
		{Block: "task.health", Name: "retries", Kind: KindInt, Default: "3", Says: "So many failures in a row end the task"},
	}
}

func paceReference() []Field {
	return []Field{
		{Block: "update", Name: "parallelism", Kind: KindInt, Default: "1", Says: "Slots that move at a time; 0: all"},
		{Block: "update", Name: "delay", Kind: KindDuration, Default: `"0s"`, Says: "How long to wait after a slot is up"},
		{Block: "update", Name: "order", Kind: KindWord, Words: words(cluster.StopFirst, cluster.StartFirst), Default: `"stop-first"`, Says: "Which of the two tasks of a slot comes first"},
		{Block: "update", Name: "monitor", Kind: KindDuration, Default: `"5s"`, Says: "How long a new task is watched for failure after it is up"},
		{Block: "update", Name: "on_failure", Kind: KindWord, Words: words(cluster.FailurePause, cluster.FailureContinue, cluster.FailureRollback), Default: `"pause"`, Says: "What an update does when too many new tasks fail"},
		{Block: "update", Name: "max_failure_ratio", Kind: KindNumber, Default: "0", Says: "The share of moved slots, from 0 to 1, of which more is a failed update"},
		{Block: "update", Name: "progress_deadline", Kind: KindDuration, Default: `"10m"`, Says: "Without a slot coming up for so long, the update fails; 0: never"},
		{Block: "restart", Name: "condition", Kind: KindWord, Words: words(cluster.RestartAny, cluster.RestartOnFailure, cluster.RestartNone), Default: `"any"`, Says: "After which ends a slot gets a new task; where tasks end by themselves, `on-failure` is the default"},
		{Block: "restart", Name: "delay", Kind: KindDuration, Default: `"1s"`, Says: "Before the first restart; doubled with each that follows"},
		{Block: "restart", Name: "max_delay", Kind: KindDuration, Default: `"1m"`, Says: "The longest delay; equal to `delay`: always the same"},
		{Block: "restart", Name: "attempts", Kind: KindInt, Default: "0", Says: "Restarts within the window; 0: no limit"},
		{Block: "restart", Name: "window", Kind: KindDuration, Default: `"10m"`, Says: "0: for ever, which is the default where tasks end by themselves"},
	}
}
