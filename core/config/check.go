package config

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// check reports what can be read and makes no sense.
func (r *reader) check() {
	c := r.config
	r.name("name", c.Name, cluster.ValidateNodeName)
	r.notEmpty("data_dir", c.DataDir)
	if c.Advertise != reachable(c.Listen.API) {
		r.address("advertise", c.Advertise, 1)
	}
	r.oneOf("log.level", c.Log.Level, "trace", "debug", "info", "warn", "error")
	r.address("listen.api", c.Listen.API, 0)
	for i, name := range c.TLS.Names {
		if at := fmt.Sprintf("tls.names[%d]", i); net.ParseIP(name) == nil {
			r.name(at, name, cluster.ValidateNodeName)
		}
	}
	r.together("tls.authority", c.TLS.Authority.Certificate, c.TLS.Authority.Key)
	r.checkDashboard(c.Dashboard)
	r.checkStore(c.Store)
	r.checkHeartbeat(c.Heartbeat)
	if c.Replace.NodesPer < 0 {
		r.wrong("replace.nodes_per", "Negative duration", fmt.Sprintf("It is %s; it cannot be less than 0.", c.Replace.NodesPer))
	}
	r.oneOf("placement.strategy", string(c.Placement.Strategy), string(cluster.StrategySpread), string(cluster.StrategyBinpack))
	r.atLeast("limits.turn_changes", int64(c.Limits.TurnChanges), 100)
	r.checkPools(c.Pools)
	r.atLeast("audit.file_size", c.Audit.FileSize, 64<<10)
	r.atLeast("audit.files", int64(c.Audit.Files), 1)
	r.oneOf("audit.on_failure", string(c.Audit.OnFailure), string(AuditRefuse), string(AuditContinue))
	for _, s := range c.Secrets {
		at := hcltext.Keyed("secret", s.Name)
		r.name(at, s.Name, cluster.ValidateSecretName)
		if s.File == "" {
			r.wrong(at, "No file", "The secret is the content of a file on the server: file = \"/etc/setpoint/secrets/NAME\".")
		}
	}
	r.checkTelemetry(c.Telemetry)
	r.checkNotify(c.Notify)
	for i := range c.Plugins {
		r.checkPlugin(&c.Plugins[i])
	}
	if c.Agent != nil {
		r.checkAgent(c.Agent)
	}
}

// wrong reports what is wrong with the value at a path, unless something was said about it already.
func (r *reader) wrong(at, summary, detail string) {
	if r.Failed(at) {
		return
	}
	place, _ := r.Ranges.Find(at)
	r.Fail(at, place, summary, detail)
}

func (r *reader) name(at, name string, valid func(string) error) {
	if err := valid(name); err != nil {
		r.wrong(at, "Invalid name", capital(err.Error())+".")
	}
}

func (r *reader) notEmpty(at, text string) {
	if text == "" {
		r.wrong(at, "Empty text", "It must say something.")
	}
}

func (r *reader) oneOf(at, given string, known ...string) {
	if !slices.Contains(known, given) {
		r.wrong(at, "Unknown word", unknownWord(given, known...))
	}
}

func unknownWord(given string, known ...string) string {
	detail := fmt.Sprintf("There is no %q here; use %s.", given, cluster.Choice(known))
	if near := cluster.Suggest(given, known); near != "" {
		detail += fmt.Sprintf(" Did you mean %q?", near)
	}
	return detail
}

func (r *reader) atLeast(at string, n, least int64) {
	if n < least {
		r.wrong(at, "Number out of range", fmt.Sprintf("It is %d; it must be at least %d.", n, least))
	}
}

func (r *reader) positive(at string, d time.Duration) {
	if d <= 0 {
		r.wrong(at, "Duration too short", fmt.Sprintf("It is %s; it must be more than 0.", d))
	}
}

// address checks HOST:PORT. Where to listen may do without a host and have port 0, for which the least port is 0; where to call has both.
func (r *reader) address(at, address string, leastPort uint64) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" && leastPort > 0 {
		r.wrong(at, "Not an address", fmt.Sprintf("%q must be like 127.0.0.1:7480.", address))
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < leastPort {
		r.wrong(at, "Not a port", fmt.Sprintf("The port in %q must be a number from %d to 65535.", address, leastPort))
	}
}

// reachable returns the address for others of a server that listens at one: the machine's name if it listens at all of its addresses.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return listen
	}
	return net.JoinHostPort(hostname(), port)
}

func (r *reader) checkDashboard(d Dashboard) {
	if d.Listen != "" {
		r.address("dashboard.listen", d.Listen, 0)
	}
	if d.Advertise != "" {
		r.address("dashboard.advertise", d.Advertise, 1)
	}
	r.together("dashboard", d.Certificate, d.Key)
}

// together reports that one of two files is named which serve together only.
func (r *reader) together(at, certificate, key string) {
	switch {
	case certificate != "" && key == "":
		r.wrong(at+".certificate", "Certificate without a key", "The attribute \"key\" names the file that has it.")
	case certificate == "" && key != "":
		r.wrong(at+".key", "Key without a certificate", "The attribute \"certificate\" names the file that has it.")
	}
}

func (r *reader) checkStore(s Store) {
	at := hcltext.Keyed("store", s.Kind)
	r.atLeast(at+".max_size", s.MaxSize, 0)
	r.atLeast(at+".retention.revisions", int64(min(s.Retention.Revisions, 1<<62)), 1)
	r.positive(at+".retention.age", s.Retention.Age)
	r.atLeast(at+".retention.size", s.Retention.Bytes, 1)
}

func (r *reader) checkHeartbeat(h Heartbeat) {
	r.atLeast("heartbeat.per_second", int64(h.PerSecond), 0)
	r.atLeast("heartbeat.returns_per_second", int64(h.ReturnsPerSecond), 0)
	if h.Interval < 50*time.Millisecond {
		r.wrong("heartbeat.interval", "Duration too short", fmt.Sprintf("It is %s; it must be at least 50ms.", h.Interval))
		return
	}
	if h.Silent <= h.Interval {
		r.wrong("heartbeat.silent_after", "Shorter than an interval",
			fmt.Sprintf("It is %s with an interval of %s: every node would be silent between two heartbeats.", h.Silent, h.Interval))
	}
	if h.Grace < h.Silent {
		r.wrong("heartbeat.grace", "Shorter than the silence", fmt.Sprintf("It is %s; a node is silent after %s, and down no earlier.", h.Grace, h.Silent))
	}
}

// checkPools checks that each pool is a range of its own: an address that two pools give would be given twice.
func (r *reader) checkPools(pools []Pool) {
	for i, p := range pools {
		at := hcltext.Keyed("pool", p.Name)
		r.name(at, p.Name, cluster.ValidateName)
		prefix, err := netip.ParsePrefix(p.CIDR)
		if err != nil {
			r.wrong(at+".cidr", "Not a range of addresses", fmt.Sprintf("%q must be like 10.1.0.0/24.", p.CIDR))
			continue
		}
		for _, other := range pools[:i] {
			if o, err := netip.ParsePrefix(other.CIDR); err == nil && o.Overlaps(prefix) {
				r.wrong(at+".cidr", "Ranges overlap", fmt.Sprintf("%s has addresses of pool %q (%s), which would be given twice.", p.CIDR, other.Name, other.CIDR))
			}
		}
	}
}

func (r *reader) checkPlugin(p *Plugin) {
	at := hcltext.Keyed("plugin", p.Name)
	r.name(at, p.Name, cluster.ValidateName)
	switch {
	case p.Builtin && p.Path != "":
		r.wrong(at+".path", "Both built in and a program", "A plugin that is built in has no path; remove builtin = true or the path.")
	case p.Builtin && !slices.Contains(BuiltinPlugins(), p.Name):
		r.wrong(at+".builtin", "No such built-in plugin", unknownWord(p.Name, BuiltinPlugins()...))
	case !p.Builtin && p.Path == "" && !p.Disabled:
		detail := fmt.Sprintf("It is not one of the built-in plugins (%s), so it needs the path of its program.", strings.Join(BuiltinPlugins(), ", "))
		if near := cluster.Suggest(p.Name, BuiltinPlugins()); near != "" {
			detail += fmt.Sprintf(" Did you mean %q?", near)
		}
		r.wrong(at+".path", "Plugin without a program", detail)
	}
	if p.SHA256 != "" {
		sum, err := hex.DecodeString(p.SHA256)
		if err != nil || len(sum) != 32 {
			r.wrong(at+".sha256", "Not a SHA-256 sum", "It must be 64 hexadecimal digits, as sha256sum prints them.")
		}
		if p.Builtin {
			r.wrong(at+".sha256", "Sum of a built-in plugin", "A built-in plugin is part of this executable; there is nothing to compare.")
		}
	}
	if p.Builtin && len(p.Args) > 0 {
		r.wrong(at+".args", "Arguments of a built-in plugin", "A built-in plugin takes none; its settings go into its config block.")
	}
	for key := range p.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(p.Env[key], 0) {
			r.wrong(hcltext.Keyed(at+".env", key), "Invalid variable", "A name is not empty and has no =, and neither name nor value has a NUL character.")
		}
	}
	r.positive(at+".timeout", p.Timeout)
	r.positive(at+".handshake_timeout", p.HandshakeTimeout)
	r.oneOf(at+".on_failure", string(p.OnFailure), string(FailureStall), string(FailureIgnore))
	r.checkConfinement(at, p)
}

func (r *reader) checkAgent(a *Agent) {
	r.name("agent.name", a.Name, cluster.ValidateNodeName)
	r.notEmpty("agent.data_dir", a.DataDir)
	if a.Server != "" {
		r.address("agent.server", a.Server, 1)
	}
	r.labels("agent.labels", a.Labels)
	r.labels("agent.attributes", a.Attributes)
	for i, d := range a.Drivers {
		r.oneOf(fmt.Sprintf("agent.drivers[%d]", i), d, cluster.DriverProcess, cluster.DriverDocker, cluster.DriverSim)
	}
	r.atLeast("agent.capacity.cpu", a.Capacity.MilliCPU, 0)
	r.atLeast("agent.capacity.memory", a.Capacity.Memory, 0)
	for _, unit := range a.Capacity.UnitNames() {
		at := hcltext.Keyed("agent.capacity.units", unit)
		r.name(at, unit, cluster.ValidateUnitName)
		r.atLeast(at, a.Capacity.Units[unit], 0)
	}
	r.atLeast("agent.task_logs.file_size", a.TaskLogs.FileSize, 64<<10)
	r.atLeast("agent.task_logs.files", int64(a.TaskLogs.Files), 2)
	r.checkProcess(a.Process)
	r.checkDocker(a.Docker)
}

func (r *reader) labels(at string, labels map[string]string) {
	for key, value := range labels {
		r.name(hcltext.Keyed(at, key), key, cluster.ValidateLabelKey)
		r.name(hcltext.Keyed(at, key), value, cluster.ValidateLabelValue)
	}
}
