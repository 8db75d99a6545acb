package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) pluginInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect NAME", Short: "Show all that is known of a plugin", Args: takes(1, 1),
		Example: "  setpoint plugin inspect constraint",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.GetPlugin, &apiv1.GetPluginRequest{Plugin: args[0]})
			if err != nil {
				return err
			}
			return a.print(view.OfPluginDetail(res), func(w io.Writer, style console.Style) { writePlugin(w, style, time.Now(), res) })
		},
	}
}

func writePlugin(w io.Writer, style console.Style, now time.Time, d *apiv1.GetPluginResponse) {
	p := d.GetPlugin()
	line := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			fmt.Fprintf(w, "%-12s %s\n", name, text)
		}
	}
	line("name", "%s", p.GetName())
	line("state", "%s for %s, %s", pluginState(style, p.GetState()), ago(now, p.GetSince()), console.Count(p.GetRestarts(), "restart"))
	line("version", "%s (protocol %d, %s)", p.GetVersion(), d.GetProtocol(), d.GetSdk())
	line("serves", "%s", strings.Join(append(p.GetInterfaces(), p.GetJobTypes()...), " "))
	if p.GetPid() != 0 {
		line("process", "%d, %s", p.GetPid(), console.Bytes(d.GetMemoryBytes()))
	}
	if d.GetAttached() != "" {
		line("attached", "%s", style.Yellow(d.GetAttached()+": that process was started by somebody else, and serves until it ends; then the server's own does"))
	}
	line("executable", "%s", strings.Join(append([]string{d.GetPath()}, d.GetArgs()...), " "))
	writeDigests(line, style, d)
	line("answers", "within %s; when it cannot: %s", d.GetTimeout().AsDuration(), d.GetOnFailure())
	line("mirror", "revision %d, %s", d.GetMirrorRevision(), console.Count(d.GetMirrorNodes(), "node"))
	line("asked for", "%s, %s", classCount(d.GetClasses()), console.Count(d.GetJobs(), "job"))
	if l := d.GetLatency(); l.GetSamples() > 0 {
		line("latency", "p50 %s, p90 %s, p99 %s, longest %s (last %d)", short(l.GetP50().AsDuration()), short(l.GetP90().AsDuration()),
			short(l.GetP99().AsDuration()), short(l.GetMax().AsDuration()), l.GetSamples())
	}
	line("sandbox", "%s", strings.Join(d.GetSandbox(), "; "))
	for _, m := range d.GetSandboxMissing() {
		line("not applied", "%s", style.Yellow(m))
	}
	if d.GetLastError() != "" {
		line("last error", "%s ago: %s", ago(now, d.GetLastErrorAt()), d.GetLastError())
	}
	if d.GetNextTry() != nil {
		line("next try", "in %s", console.Age(timeOf(d.GetNextTry()).Sub(now)))
	}
	writeStalls(w, style, now, p.GetStalls())
}

func writeDigests(line func(name, format string, args ...any), style console.Style, d *apiv1.GetPluginResponse) {
	running, disk := d.GetDigestRunning(), d.GetDigestOnDisk()
	switch {
	case d.GetAttached() != "":
	case d.GetOnDiskProblem() != "":
		line("digest", "%s runs; %s", running, style.Red(d.GetOnDiskProblem()))
	case running != "" && running != disk:
		line("digest", "%s runs, %s", running, style.Yellow(disk+" is on disk: plugin reload "+d.GetPlugin().GetName()+" lets it serve"))
	default:
		line("digest", "%s", disk)
	}
}

func classCount(n int64) string {
	if n == 1 {
		return "1 class"
	}
	return fmt.Sprintf("%d classes", n)
}

// short writes a duration with three digits.
func short(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
