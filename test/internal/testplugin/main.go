// Command testplugin serves one of the plugins that come along, with faults that a test wants:
//
//	testplugin NAME [-match-delay 1s] [-start-delay 1s] [-needs KEY=VALUE] [-fail-while FILE] [-child]
//
// It serves the real plugin's answers. With -match-delay each look at a node takes so long, with -start-delay the start does, with -needs a filter refuses
// every node to a job without that label, with -fail-while a job type's answers fail while a file exists, and with -child the plugin has a child of its own,
// which runs for a long time.
//
// Owner: tests. It imports plugins and sdk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/plugins/drain"
	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) == 0 {
		return errors.New("want the name of a plugin")
	}
	flags := flag.NewFlagSet("testplugin", flag.ContinueOnError)
	matchDelay := flags.Duration("match-delay", 0, "how long each look at a node takes")
	startDelay := flags.Duration("start-delay", 0, "how long the start takes")
	needs := flags.String("needs", "", "the label that a job must have, KEY=VALUE")
	failWhile := flags.String("fail-while", "", "answers about jobs fail while this file exists")
	child := flags.Bool("child", false, "have a child process")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	newPlugin, known := map[string]func() sdk.Plugin{constraint.Name: constraint.New, drain.Name: drain.New, global.Name: global.New}[args[0]]
	if !known {
		return fmt.Errorf("no plugin %q comes along", args[0])
	}
	plugin := newPlugin()
	if *matchDelay > 0 && plugin.Filter != nil {
		plugin.Filter = slow{plugin.Filter, *matchDelay}
	}
	if *needs != "" && plugin.Filter != nil {
		key, value, _ := strings.Cut(*needs, "=")
		plugin.Filter = demanding{plugin.Filter, key, value}
	}
	if *failWhile != "" {
		for name, t := range plugin.JobTypes {
			plugin.JobTypes[name] = moody{t, *failWhile}
		}
	}
	if *child {
		// Nobody waits for it: what becomes of it when this process ends is what the test looks at.
		if err := exec.Command("sleep", "1000").Start(); err != nil {
			return err
		}
	}
	pause(*startDelay)
	sdk.Serve(plugin)
	return nil
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// slow is a filter whose answers take their time.
type slow struct {
	sdk.Filter
	delay time.Duration
}

// Validate is the filter's own.
func (s slow) Validate(ctx context.Context, req sdk.CompileRequest) error {
	if v, ok := s.Filter.(sdk.Validator); ok {
		return v.Validate(ctx, req)
	}
	return nil
}

// Compile returns a matcher that is slow.
func (s slow) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	m, err := s.Filter.Compile(ctx, req)
	if m == nil || err != nil {
		return m, err
	}
	return slowMatcher{m, s.delay}, nil
}

type slowMatcher struct {
	sdk.Matcher
	delay time.Duration
}

// Match looks at the node first, and takes its time then: what changes meanwhile is not in the answer.
func (s slowMatcher) Match(n *cluster.Node) error {
	err := s.Matcher.Match(n)
	pause(s.delay)
	return err
}

// demanding is a filter that lets only jobs with a label run anywhere.
type demanding struct {
	sdk.Filter
	key, value string
}

// Validate is the filter's own.
func (d demanding) Validate(ctx context.Context, req sdk.CompileRequest) error {
	if v, ok := d.Filter.(sdk.Validator); ok {
		return v.Validate(ctx, req)
	}
	return nil
}

// Compile returns a matcher that refuses everything to a job without the label.
func (d demanding) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if req.Labels[d.key] != d.value {
		return refusal(fmt.Sprintf("the job's label %s is not %s", d.key, d.value)), nil
	}
	return d.Filter.Compile(ctx, req)
}

// refusal refuses every node.
type refusal string

// Match refuses.
func (r refusal) Match(*cluster.Node) error {
	return &sdk.Stall{Code: cluster.CodeConstraint, Detail: string(r), Evicts: true}
}

// moody is a job type whose answers fail while a file exists.
type moody struct {
	sdk.JobType
	file string
}

// Slots fails, or is the job type's own.
func (m moody) Slots(ctx context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	if _, err := os.Stat(m.file); err == nil {
		return sdk.SlotsResponse{}, errors.New("the inventory is away")
	}
	return m.JobType.Slots(ctx, req)
}
