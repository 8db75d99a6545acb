package sdk

import (
	"errors"
	"fmt"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Stall is a non-terminal error: why something cannot advance now. From a Matcher it refuses a node, from Compile it is shown on the job's waiting tasks,
// from a Drainer it keeps tasks where they are, from a JobType it holds slots. It goes when its cause goes.
//
// A Stall that was returned must not be changed afterwards; returning the same pointer many times is cheap and welcome.
type Stall struct {
	// Code is the stable word for the reason, such as "no_gpu". Required. A code that is not one of Setpoint's own is shown with the plugin's name before
	// it: "gpu.no_gpu".
	Code cluster.Code
	// Message says to people what is the matter.
	Message string
	// Detail is the fact behind it, such as the failing constraint. It is counted: nodes refused with the same code and detail are shown together, so it
	// should not name the node.
	Detail string
	// Clears says what would end it.
	Clears string
	// Evicts tells, for a refusal by a Matcher, that tasks that run on the node should leave it. Without it only new tasks stay away.
	Evicts bool
}

// NewStall returns a stall with a code and a message.
func NewStall(code cluster.Code, format string, args ...any) *Stall {
	return &Stall{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the code, message and detail; "no stall" if s is nil.
func (s *Stall) Error() string {
	if s == nil {
		return "no stall"
	}
	parts := []string{string(s.Code)}
	for _, p := range []string{s.Message, s.Detail} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// asStall returns the stall that err is or wraps. A nil *Stall in err, as a function that returns *Stall leads to, is no error at all: nil, true.
func asStall(err error) (*Stall, bool) {
	if s, ok := err.(*Stall); ok { //nolint:errorlint // the common case, for each node
		return s, true
	}
	var s *Stall
	ok := errors.As(err, &s)
	return s, ok
}

// coreCodes are the codes whose meaning Setpoint itself defines and that any plugin may use.
var coreCodes = map[cluster.Code]bool{
	cluster.CodeConstraint: true, cluster.CodeInsufficientResources: true, cluster.CodePortTaken: true, cluster.CodeOnePerNode: true,
	cluster.CodeNoNodes: true, cluster.CodeNodePaused: true, cluster.CodeNodeDraining: true, cluster.CodeNodeSilent: true, cluster.CodeNodeDown: true,
	cluster.CodeWaitingForBudget: true, cluster.CodeWaitingForReplacement: true, cluster.CodeWaitingForStop: true, cluster.CodeWaitingForAgent: true,
	cluster.CodeWaitingForTurn: true, cluster.CodeUnhealthy: true, cluster.CodeRestartDelay: true, cluster.CodeRestartBudgetUsed: true, cluster.CodeUpdatePaused: true,
	cluster.CodeAddressPoolExhausted: true, cluster.CodePlacedRecently: true,
}

// qualified returns the code as it is shown: one of Setpoint's own as it is, any other with the plugin's name before it.
func qualified(plugin string, code cluster.Code) string {
	switch {
	case code == "":
		return plugin + ".unspecified"
	case coreCodes[code], strings.HasPrefix(string(code), plugin+"."):
		return string(code)
	}
	return plugin + "." + string(code)
}
