// Command faultplugin is the constraint plugin with the faults of one that is broken:
//
//	faultplugin [-version V] [-hang TEXT] [-fail-while FILE] [-panic FILE] [-refuse NODE] [-grow] [-dump] [-babble] [-slow-stop] [-lie KIND] [-lack WHAT]
//
// It never answers for what has TEXT in its settings, fails while FILE exists, panics once FILE exists, refuses a node besides, takes more and more memory,
// writes what it was given, writes without end to standard output, does not end when it is asked to, says what cannot be about classes with "lie" in their settings, or lacks what it should have.
//
// Owner: tests. It imports plugins and sdk, and what it takes to speak the protocol without the SDK.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// faults are what is wrong with the plugin.
type faults struct {
	version   string
	hang      string
	failWhile string
	panicAt   string
	refuse    string
	grow      bool
	dump      bool
	babble    bool
	slowStop  bool
}

func main() {
	var f faults
	flag.StringVar(&f.version, "version", "", "the version that it says it has")
	flag.StringVar(&f.hang, "hang", "", "no answer for what has this text in its settings")
	flag.StringVar(&f.failWhile, "fail-while", "", "every answer fails while this file exists")
	flag.StringVar(&f.panicAt, "panic", "", "panic once this file exists")
	flag.StringVar(&f.refuse, "refuse", "", "refuse the node of this name besides")
	flag.BoolVar(&f.grow, "grow", false, "take more and more memory")
	flag.BoolVar(&f.dump, "dump", false, "write arguments, environment and descriptors to standard error")
	flag.BoolVar(&f.babble, "babble", false, "write without end to standard output, as Go has it and as the system does")
	flag.BoolVar(&f.slowStop, "slow-stop", false, "do not end when asked to, nor by SIGTERM")
	lie := flag.String("lie", "", "what is false in answers: "+kinds())
	lack := flag.String("lack", "", "what it should have and does not")
	flag.Parse()
	plugin := constraint.New()
	if f.version != "" {
		plugin.Version = f.version
	}
	plugin.Filter = faulty{plugin.Filter, f}
	if f.dump {
		dump()
	}
	if f.grow {
		go grow()
	}
	if f.babble {
		go babble()
	}
	if f.panicAt != "" {
		go panicOnce(f.panicAt)
	}
	if f.slowStop {
		signal.Ignore(syscall.SIGTERM)
		plugin.Filter = deaf{plugin.Filter}
	}
	if *lie != "" || *lack != "" {
		if err := serveFalsely(plugin, *lie, *lack); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	sdk.Serve(plugin)
}

// faulty is the filter with its faults.
type faulty struct {
	sdk.Filter
	faults
}

func (f faulty) fails() error {
	if f.failWhile == "" {
		return nil
	}
	if _, err := os.Stat(f.failWhile); err != nil {
		return nil //nolint:nilerr // the time of failing is over
	}
	return errors.New("the licence server is away")
}

// Validate is the filter's own.
func (f faulty) Validate(ctx context.Context, req sdk.CompileRequest) error {
	if v, ok := f.Filter.(sdk.Validator); ok {
		return v.Validate(ctx, req)
	}
	return nil
}

// Compile hangs, fails, or returns a matcher with faults.
func (f faulty) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if f.hang != "" && strings.Contains(string(req.Settings), f.hang) {
		select {} // not even when its time is over
	}
	if err := f.fails(); err != nil {
		return nil, err
	}
	m, err := f.Filter.Compile(ctx, req)
	if err != nil || m == nil && f.refuse == "" {
		return m, err
	}
	return matcher{m, f}, nil
}

type matcher struct {
	sdk.Matcher
	faulty
}

// Match refuses a node besides.
func (m matcher) Match(n *cluster.Node) error {
	if err := m.fails(); err != nil {
		return err
	}
	if n.Spec.Name == m.refuse {
		return &sdk.Stall{Code: "unloved", Detail: "it is not loved"}
	}
	if m.Matcher == nil {
		return nil
	}
	return m.Matcher.Match(n)
}

// deaf is a filter that holds up the end of its process.
type deaf struct{ sdk.Filter }

// Compile never ends.
func (d deaf) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if req.Settings == "" {
		return d.Filter.Compile(ctx, req)
	}
	select {}
}

func grow() {
	var held [][]byte
	for {
		b := make([]byte, 4<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
		pause(20 * time.Millisecond)
		if len(held) > 1000 {
			return
		}
	}
}

// babble begins once the handshake is over, which takes a moment: the host ends a plugin that writes something else before.
func babble() {
	pause(time.Second)
	line := strings.Repeat("nonsense ", 20) + "\n"
	for {
		fmt.Print(line)
		if _, err := syscall.Write(1, []byte("raw "+line)); err != nil {
			return
		}
		pause(10 * time.Microsecond)
	}
}

func panicOnce(file string) {
	for {
		if _, err := os.Stat(file); err == nil {
			panic("the moon fell down")
		}
		pause(20 * time.Millisecond)
	}
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// dump writes all that the process was given.
func dump() {
	for _, arg := range os.Args {
		fmt.Fprintln(os.Stderr, "argument", arg)
	}
	environ, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		fmt.Fprintln(os.Stderr, "variables", err)
	}
	for _, kv := range strings.Split(strings.Trim(string(environ), "\x00"), "\x00") {
		key, value, _ := strings.Cut(kv, "=")
		fmt.Fprintln(os.Stderr, "variable", key, strings.ReplaceAll(value, "\n", " "))
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		fmt.Fprintln(os.Stderr, "descriptors", err)
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fmt.Fprintln(os.Stderr, "descriptor", e.Name(), target)
		}
	}
}
