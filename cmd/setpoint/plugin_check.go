package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// The rules about a plugin's process, besides those of sdktest about what it says.
const (
	ruleStart    sdktest.Rule = "start"
	ruleByHand   sdktest.Rule = "by_hand"
	ruleStdout   sdktest.Rule = "stdout"
	ruleTLS      sdktest.Rule = "tls"
	ruleLifeline sdktest.Rule = "lifeline"
)

var processRules = map[sdktest.Rule]struct{ promise, advice string }{
	ruleStart:    {"starts, shakes hands and answers over TLS", "Serve before any slow work, and write nothing but the handshake to standard output."},
	ruleByHand:   {"says what it is and ends when it is started by hand", "Check the cookie of the handshake before anything else, and exit with a status other than 0."},
	ruleStdout:   {"keeps its standard output for the handshake", "Log to standard error; each other line on standard output is dropped."},
	ruleTLS:      {"answers nobody but the host that started it", "Require and verify the client certificate that PLUGIN_CLIENT_CERT holds."},
	ruleLifeline: {"ends when its host is gone", "Read the descriptor that " + sdk.LifelineEnv + " names, and exit at its end of file."},
}

// pluginCheckFlags are what plugin check takes besides the path.
type pluginCheckFlags struct {
	config   string
	settings []string
	env      []string
	seed     uint64
	rounds   int
	deadline time.Duration
	open     bool // without the sandbox
}

func (a *app) pluginCheck() *cobra.Command {
	var f pluginCheckFlags
	cmd := &cobra.Command{
		Use: "check PATH [ARGS...]", Short: "Check a plugin's program, in any language, against all that servers rely on", Args: takes(1, -1),
		Example: "  setpoint plugin check ./bin/gpu",
		Long: `Starts the program as a server would, without a cluster, and checks what servers rely on, rule by rule: the handshake, TLS, what it says of itself, that
its answers are the same whenever and in whatever order it is asked, follow each change, are bounded and in time, that odd input does no harm, and that it
ends when it should.

A filter is asked about classes with the settings that --job-settings gives, or else with what its schema suggests. Nodes are drawn with labels and
attributes made of the words in those settings. Give settings that some nodes meet and others do not, or little can be compared.

Exit codes: 0 all rules are kept, 1 one is broken, 2 refused input.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.checkPlugin(cmd.Context(), args[0], args[1:], f)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&f.config, "config", "", "a `file` with the plugin's configuration, as one JSON object")
	cmd.Flags().StringArrayVar(&f.settings, "job-settings", nil, "what a job says to the plugin, as `JSON`; may be repeated")
	cmd.Flags().StringArrayVar(&f.env, "env", nil, "a `KEY=value` for its environment, which is otherwise almost empty; may be repeated")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "draws other nodes and changes; a report names its own")
	cmd.Flags().IntVar(&f.rounds, "rounds", 0, "how many scenes are drawn for each rule (default 20)")
	cmd.Flags().DurationVar(&f.deadline, "deadline", 0, "the `time` for one answer (default 2s, as for servers)")
	cmd.Flags().BoolVar(&f.open, "no-sandbox", false, "do not confine it as servers do: no connections, and no files but those beside it and those that every program needs")
	return cmd
}

// cases reads what the flags say into what the plugin is asked.
func (f pluginCheckFlags) cases() (sdktest.Cases, error) {
	c := sdktest.Cases{Seed: f.seed, Rounds: f.rounds, Deadline: f.deadline}
	if f.config != "" {
		text, err := os.ReadFile(f.config)
		if err != nil {
			return c, refuse("", "read the configuration: %v", err)
		}
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			return c, refuse("It is one JSON object with the attributes of the plugin's config block.", "read the configuration %s: %v", f.config, err)
		}
		c.Config = string(text)
	}
	for _, text := range f.settings {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			return c, refuse(`It is one JSON object, such as {"label":"disk"}.`, "bad --job-settings %s: %v", text, err)
		}
		c.Classes = append(c.Classes, sdk.CompileRequest{JobType: cluster.TypeReplicated, Settings: sdk.Settings(text)})
	}
	if len(c.Classes) > 0 {
		c.Classes = append(c.Classes, sdk.CompileRequest{JobType: cluster.TypeReplicated})
	}
	return c, nil
}

// jobsOf gives jobs of the plugin's types the settings that were given.
func (f pluginCheckFlags) jobsOf(ctx context.Context, p *pluginProgram) ([]sdk.Job, error) {
	if len(f.settings) == 0 {
		return nil, nil
	}
	about, err := p.describe(ctx)
	if err != nil {
		return nil, err
	}
	var out []sdk.Job
	for _, t := range about.JobTypes {
		for i, text := range f.settings {
			out = append(out, sdk.Job{Name: fmt.Sprintf("%s-%d", t, i), Type: t, Count: i + 1, Settings: sdk.Settings(text)})
		}
	}
	return out, nil
}

func (a *app) checkPlugin(ctx context.Context, path string, args []string, f pluginCheckFlags) (err error) {
	cases, err := f.cases()
	if err != nil {
		return err
	}
	keeper := &logKeeper{}
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Trace, Output: io.Discard})
	log.RegisterSink(keeper)
	program, err := openProgram(path, args, f.env, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	if !f.open {
		program.confine()
	}
	report, err := program.check(ctx, f, cases, keeper)
	if err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer, s console.Style) { writeReport(w, s, path, report) }); err != nil {
		return err
	}
	if !report.OK() {
		return errShown(exitError)
	}
	return nil
}

// check checks the program's process and then what it says.
func (p *pluginProgram) check(ctx context.Context, f pluginCheckFlags, cases sdktest.Cases, keeper *logKeeper) (*sdktest.Report, error) {
	begun := time.Now()
	started := processResult(ruleStart, begun)
	jobs, err := f.jobsOf(ctx, p)
	var report *sdktest.Report
	if err == nil {
		cases.Jobs = jobs
		started.Took = time.Since(begun)
		report, err = sdktest.Check(ctx, p, cases)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		report = &sdktest.Report{Plugin: p.command.Name, Seed: cases.Seed}
		violate(&started, "", err.Error()+p.freely(ctx, f), "")
		report.Results = []sdktest.Result{started}
		report.Took = time.Since(begun)
		return report, nil
	}
	results := []sdktest.Result{started, p.checkStdout(keeper), p.checkByHand(ctx), p.checkTLS(ctx), p.checkLifeline(ctx)}
	report.Results = append(results, report.Results...)
	report.Took = time.Since(begun)
	return report, nil
}

// freely says whether a program that did not start does so without the sandbox.
func (p *pluginProgram) freely(ctx context.Context, f pluginCheckFlags) string {
	if f.open {
		return ""
	}
	p.command.Confine.Level = runner.SandboxOff
	run, err := p.start(ctx)
	if err != nil {
		return ""
	}
	run.Kill()
	return "\nwithout the sandbox (--no-sandbox) it starts: what it needs must be allowed in the server's configuration, which its README should say"
}

func processResult(rule sdktest.Rule, begun time.Time) sdktest.Result {
	return sdktest.Result{Rule: rule, Promise: processRules[rule].promise, Outcome: sdktest.Pass, Took: time.Since(begun)}
}

func violate(r *sdktest.Result, sent, got, want string) {
	r.Outcome = sdktest.Fail
	r.Violations = append(r.Violations, sdktest.Violation{Rule: r.Rule, Sent: sent, Got: got, Want: want, Advice: processRules[r.Rule].advice})
}

// checkStdout looks at what came on standard output in all runs so far.
func (p *pluginProgram) checkStdout(keeper *logKeeper) sdktest.Result {
	r := processResult(ruleStdout, time.Now())
	if lines := keeper.of("plugin wrote to stdout before its handshake"); len(lines) > 0 {
		violate(&r, "", "before its handshake: "+strings.Join(lines, "\n"), "nothing but the handshake")
	}
	if lines := keeper.of("plugin stdout"); len(lines) > 0 {
		r.Notes = append(r.Notes, "after its handshake it wrote: "+strings.Join(lines, " | "))
	}
	return r
}

const byHandTime = 10 * time.Second

// checkByHand starts the program without the cookie of the handshake.
func (p *pluginProgram) checkByHand(ctx context.Context) sdktest.Result {
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, byHandTime)
	defer cancel()
	cmd := exec.CommandContext(limited, p.command.Path, p.command.Args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = p.command.Env, "/", time.Second
	out, err := cmd.CombinedOutput()
	r := processResult(ruleByHand, begun)
	var exit *exec.ExitError
	switch {
	case limited.Err() != nil:
		violate(&r, "", fmt.Sprintf("it still runs after %s", byHandTime), "a message and an exit status other than 0")
	case err == nil:
		violate(&r, "", "exit status 0", "an exit status other than 0")
	case !errors.As(err, &exit):
		violate(&r, "", err.Error(), "an exit status other than 0")
	case len(strings.TrimSpace(string(out))) == 0:
		violate(&r, "", fmt.Sprintf("%s, without a word", exit), "a message for the person who tried")
	}
	return r
}

// checkTLS asks a run of the plugin without the certificate of its host.
func (p *pluginProgram) checkTLS(ctx context.Context) sdktest.Result {
	begun := time.Now()
	run, err := p.start(ctx)
	r := processResult(ruleTLS, begun)
	if err != nil {
		violate(&r, "", err.Error(), "")
		return r
	}
	defer run.Kill()
	socket, err := p.socket()
	if err != nil {
		violate(&r, "", err.Error(), "a socket in PLUGIN_UNIX_SOCKET_DIR")
		return r
	}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}))) //nolint:gosec // a stranger
	if err != nil {
		violate(&r, "", err.Error(), "")
		return r
	}
	defer func() { _ = conn.Close() }()
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(limited, &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	if err == nil {
		violate(&r, "a health check by somebody without a certificate", "an answer", "the connection is refused")
	}
	r.Took = time.Since(begun)
	return r
}

// socket finds the socket of the only run that there is.
func (p *pluginProgram) socket() (string, error) {
	found := ""
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == os.ModeSocket {
			found = path
		}
		return nil
	})
	if err == nil && found == "" {
		err = errors.New("it has no socket")
	}
	return found, err
}

const lifelineTime = 5 * time.Second

// checkLifeline lets go of a run's lifeline.
func (p *pluginProgram) checkLifeline(ctx context.Context) sdktest.Result {
	begun := time.Now()
	run, err := p.start(ctx)
	r := processResult(ruleLifeline, begun)
	if err != nil {
		violate(&r, "", err.Error(), "")
		return r
	}
	defer run.Kill()
	run.process.Abandon()
	timer := time.NewTimer(lifelineTime)
	defer timer.Stop()
	select {
	case <-run.process.Done():
	case <-timer.C:
		violate(&r, "the lifeline's end of file", fmt.Sprintf("it still runs after %s", lifelineTime), "it ends")
	}
	r.Took = time.Since(begun)
	return r
}

// writeReport writes a report for people.
func writeReport(w io.Writer, s console.Style, path string, report *sdktest.Report) {
	what := report.Plugin
	if report.Version != "" {
		what += " " + report.Version + " (" + strings.Join(report.Interfaces, ", ") + ")"
	}
	fmt.Fprintf(w, "%s: %s\n\n", path, s.Bold(what))
	for i := range report.Results {
		writeResult(w, s, &report.Results[i])
	}
	fmt.Fprintln(w)
	broken := report.Broken()
	took := report.Took.Round(10 * time.Millisecond)
	if len(broken) == 0 {
		fmt.Fprintf(w, "%s in %s, seed %d\n", s.Green("all rules are kept"), took, report.Seed)
		return
	}
	fmt.Fprintf(w, "%s in %s, seed %d\n", s.Red(console.Count(int64(len(broken)), "rule")+" broken"), took, report.Seed)
}

func writeResult(w io.Writer, s console.Style, r *sdktest.Result) {
	paint := map[sdktest.Outcome]func(string) string{sdktest.Pass: s.Green, sdktest.Fail: s.Red, sdktest.Blocked: s.Yellow, sdktest.Skip: s.Faint}[r.Outcome]
	text := r.Promise
	if r.Why != "" {
		text += s.Faint(" (" + r.Why + ")")
	}
	fmt.Fprintf(w, "%s %-13s %6s  %s\n", paint(fmt.Sprintf("%-7s", r.Outcome)), r.Rule, millis(r.Took), text)
	for _, v := range r.Violations {
		fmt.Fprintln(w, console.Indent("        ", v.String()))
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, console.Indent("        ", s.Yellow("note: ")+note))
	}
}

func millis(d time.Duration) string {
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}
