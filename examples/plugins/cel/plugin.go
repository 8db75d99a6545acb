package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Config is what the operator says in the plugin's config block.
type Config struct {
	MaxCost int `setpoint:"max_cost" desc:"How much the evaluation of an expression on one node may cost, about one for each operation." default:"10000"`
}

// Settings is what a job says in its plugin "cel" block.
type Settings struct {
	Expr string `setpoint:"expr,required" desc:"What must be true of a node that may run the job."`
	Rank string `setpoint:"rank" desc:"How welcome the job is on a node: a whole number, -100 to 100." default:""`
}

// New returns the plugin.
func New() sdk.Plugin {
	return sdk.Plugin{
		Name: "cel", Version: "1.0.0", Filter: &filter{}, Config: sdk.SchemaOf[Config](), Job: sdk.SchemaOf[Settings](),
		Watches: []sdk.Watch{sdk.WatchLabels, sdk.WatchAttributes, sdk.WatchPlatform, sdk.WatchCapacity},
	}
}

type filter struct{ maxCost atomic.Uint64 }

// ValidateConfig refuses a limit with which nothing could be evaluated.
func (*filter) ValidateConfig(_ context.Context, req sdk.ConfigureRequest) error {
	_, err := readConfig(req.Config)
	return err
}

// Configure takes up the limit.
func (f *filter) Configure(_ context.Context, req sdk.ConfigureRequest) error {
	c, err := readConfig(req.Config)
	if err == nil {
		f.maxCost.Store(uint64(c.MaxCost))
	}
	return err
}

func readConfig(settings sdk.Settings) (Config, error) {
	var c Config
	if err := settings.Decode(&c); err != nil {
		return c, err
	}
	if c.MaxCost < 1 {
		return c, sdk.Diagnostics{{Summary: fmt.Sprintf("max_cost is %d; it must be above 0", c.MaxCost), Path: sdk.At("max_cost")}}
	}
	return c, nil
}

// Validate finds all that is wrong with a job's expressions: they are parsed and their types are checked.
func (f *filter) Validate(_ context.Context, req sdk.CompileRequest) error {
	_, err := f.compile(req.Settings)
	return err
}

// Compile makes a matcher of a job's expressions. A job without any is of no interest to this plugin.
func (f *filter) Compile(_ context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if req.Settings == "" {
		return nil, nil
	}
	m, err := f.compile(req.Settings)
	if wrong := (sdk.Diagnostics)(nil); errors.As(err, &wrong) {
		return nil, &sdk.Stall{
			Code: cluster.CodeConstraint, Message: wrong[0].Summary, Detail: wrong[0].Detail, Clears: "the job's expressions are corrected",
		}
	} else if err != nil {
		return nil, err
	}
	return m, nil
}

// compile returns sdk.Diagnostics as error for what a user can correct.
func (f *filter) compile(settings sdk.Settings) (sdk.Matcher, error) {
	var s Settings
	if err := settings.Decode(&s); err != nil {
		return nil, err
	}
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	limit := f.maxCost.Load()
	var wrong sdk.Diagnostics
	program := func(attribute, text string, want *celgo.Type) celgo.Program {
		p, d := compileExpr(env, text, want, limit)
		for i := range d {
			d[i].Path = sdk.At(attribute)
		}
		wrong = append(wrong, d...)
		return p
	}
	m := matcher{expr: program("expr", s.Expr, celgo.BoolType)}
	if s.Rank == "" {
		m.refusals(s.Expr)
		return &m, wrong.Err()
	}
	r := ranking{matcher: m, rank: program("rank", s.Rank, celgo.IntType)}
	r.refusals(s.Expr)
	return &r, wrong.Err()
}

// matcher judges nodes by a program. It is used by one goroutine at a time.
type matcher struct {
	expr celgo.Program

	unmet, missing, costly *sdk.Stall
}

func (m *matcher) refusals(text string) {
	text = strings.Join(strings.Fields(text), " ")
	m.unmet = &sdk.Stall{Code: cluster.CodeConstraint, Message: "the node does not meet it", Detail: text, Clears: "a node meets " + text, Evicts: true}
	m.missing = &sdk.Stall{
		Code: cluster.CodeConstraint, Message: "the node lacks what it asks about", Detail: text, Clears: "a node meets " + text, Evicts: true,
	}
	m.costly = &sdk.Stall{Code: "too_costly", Message: "it is too costly", Detail: text, Clears: "the expression is simpler, or max_cost is higher"}
}

// Match evaluates the expression. What has no answer on a node is refused without evicting: a mistake in the expression must stop nothing that runs. The
// exception is a key that the node does not have, which is how one asks for it.
func (m *matcher) Match(n *cluster.Node) error {
	value, _, err := m.expr.Eval(nodeVars{n})
	var cancelled interpreter.EvalCancelledError
	switch {
	case err == nil && value == types.True:
		return nil
	case err == nil && value == types.False:
		return m.unmet
	case err == nil:
		return m.unanswered(fmt.Sprintf("it is a %s, not true or false", value.Type().TypeName()))
	case strings.HasPrefix(err.Error(), "no such key"):
		return m.missing
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return m.costly
	}
	return m.unanswered(err.Error())
}

func (m *matcher) unanswered(why string) *sdk.Stall {
	return &sdk.Stall{Code: "no_answer", Message: why, Detail: m.unmet.Detail + ": " + why, Clears: m.unmet.Clears}
}

// ranking is a matcher with a wish.
type ranking struct {
	matcher
	rank celgo.Program
}

// Rank evaluates the expression; 0 where it has no answer.
func (r *ranking) Rank(n *cluster.Node) int {
	value, _, err := r.rank.Eval(nodeVars{n})
	rank, ok := value.(types.Int)
	if err != nil || !ok {
		return 0
	}
	return int(max(-100, min(rank, 100)))
}
