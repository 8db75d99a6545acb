package constraint

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Name is the plugin's name.
const Name = "constraint"

// Settings is what a job says to the plugin.
type Settings struct {
	Constraints []string   `setpoint:"constraints" desc:"What a node must meet, all of it, such as node.labels.disk == ssd."`
	Affinity    []Affinity `setpoint:"affinity" desc:"What makes a node more or less welcome."`
}

// Affinity is a wish.
type Affinity struct {
	Expr   string `setpoint:"expr,required" desc:"A condition, written like a constraint."`
	Weight int    `setpoint:"weight" desc:"Added to the rank of nodes that meet it, -100 to 100." default:"50"`
}

// New returns the plugin.
func New() sdk.Plugin {
	return sdk.Plugin{
		Name: Name, Version: "1.0.0", Filter: filter{}, Job: sdk.SchemaOf[Settings](),
		Watches: []sdk.Watch{sdk.WatchLabels, sdk.WatchAttributes, sdk.WatchPlatform},
	}
}

type filter struct{}

// Compile makes a matcher of a job's constraints. A job without any is of no interest to this plugin.
func (filter) Compile(_ context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	m, err := compile(req.Settings)
	var wrong sdk.Diagnostics
	switch {
	case errors.As(err, &wrong):
		return nil, &sdk.Stall{
			Code: cluster.CodeConstraint, Message: wrong[0].Summary, Detail: wrong[0].Detail, Clears: "the job's constraints are corrected",
		}
	case err != nil:
		return nil, err
	case len(m.wishes) > 0:
		return ranking{m}, nil
	case len(m.terms) > 0:
		return m, nil
	}
	return nil, nil
}

// Validate finds all that is wrong with a job's constraints.
func (filter) Validate(_ context.Context, req sdk.CompileRequest) error {
	_, err := compile(req.Settings)
	return err
}

// compile returns sdk.Diagnostics as error for what a user can correct.
func compile(settings sdk.Settings) (*matcher, error) {
	var s Settings
	if settings == "" {
		return &matcher{}, nil
	}
	if err := settings.Decode(&s); err != nil {
		return nil, fmt.Errorf("read the job's constraints: %w", err)
	}
	var wrong sdk.Diagnostics
	m := &matcher{}
	for i, text := range s.Constraints {
		t, err := newTerm(text)
		if err != nil {
			wrong.Add(sdk.At("constraints").Index(i), err.Error(), place(err, text))
			continue
		}
		m.terms = append(m.terms, t)
	}
	for i, a := range s.Affinity {
		path := sdk.At("affinity").Index(i)
		if a.Weight < -100 || a.Weight > 100 {
			wrong.Add(path.Attribute("weight"), fmt.Sprintf("weight %d is not within -100 and 100", a.Weight), "")
		}
		t, err := newTerm(a.Expr)
		if err != nil {
			wrong.Add(path.Attribute("expr"), err.Error(), place(err, a.Expr))
			continue
		}
		m.wishes = append(m.wishes, wish{test: t.test, weight: a.Weight})
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// matcher judges nodes by terms that were compiled once. It never changes.
type matcher struct {
	terms  []term
	wishes []wish
}

// term is one constraint, with the refusal of nodes that do not meet it.
type term struct {
	test  test
	stall *sdk.Stall
}

type wish struct {
	test   test
	weight int
}

// test reports whether a node meets a condition.
type test func(n *cluster.Node) bool

func newTerm(text string) (term, error) {
	e, err := parse(text)
	if err != nil {
		return term{}, err
	}
	t, err := e.compile()
	if err != nil {
		return term{}, err
	}
	return term{test: t, stall: &sdk.Stall{
		Code: cluster.CodeConstraint, Message: "the node does not meet " + e.text, Detail: e.text, Clears: "a node meets " + e.text, Evicts: true,
	}}, nil
}

// Match returns the refusal of the first constraint, in the order of the job, that the node does not meet.
func (m *matcher) Match(n *cluster.Node) error {
	for i := range m.terms {
		if !m.terms[i].test(n) {
			return m.terms[i].stall
		}
	}
	return nil
}

// ranking is a matcher with wishes.
type ranking struct{ *matcher }

// Rank adds the weights of what the node meets.
func (m ranking) Rank(n *cluster.Node) int {
	sum := 0
	for i := range m.wishes {
		if m.wishes[i].test(n) {
			sum += m.wishes[i].weight
		}
	}
	return sum
}
