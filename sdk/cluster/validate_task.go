package cluster

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// EnvPrefix begins the names of the environment variables that Setpoint itself sets for a task.
const EnvPrefix = "SETPOINT_"

// StopSignals returns the signals that a job may ask for, without SIG.
func StopSignals() []string {
	return []string{"TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "WINCH", "KILL", "ABRT", "ALRM", "CONT", "PIPE", "PWR", "TTIN", "TTOU"}
}

func (c *checker) task(t *TaskSpec) {
	word(c, "task.driver", t.Driver, DriverProcess, DriverDocker, DriverSim)
	c.command(t)
	if t.Driver == DriverDocker && t.Config["image"] == "" {
		c.add("task.config", "No image", "The %s driver runs an image: config = { image = \"NAME:TAG\" }.", DriverDocker)
	}
	if t.Dir != "" && !path.IsAbs(t.Dir) {
		c.add("task.dir", "Not an absolute path", "%q depends on where the agent was started; begin it with a slash.", t.Dir)
	}
	c.env(t.Env)
	c.size(t)
	c.resources(t.Resources)
	c.ports(t.Ports)
	c.addresses(t.Addresses)
	c.secrets(t.Secrets)
	word(c, "task.stop.signal", t.Stop.Signal, StopSignals()...)
	c.notNegative("task.stop.grace", t.Stop.Grace)
	c.notNegative("task.stop.after_disconnect", t.Stop.AfterDisconnect)
	if t.Health != nil {
		c.health(t.Health)
	}
}

func (c *checker) command(t *TaskSpec) {
	if len(t.Command) == 0 {
		if t.Driver == DriverProcess {
			c.add("task.command", "No command", "The %s driver starts a program: command = [\"/path/to/program\", \"argument\", …].", DriverProcess)
		}
		return
	}
	if t.Command[0] == "" {
		c.add("task.command[0]", "The program has no name", "The first element is the program to start.")
	}
	for i, arg := range t.Command {
		c.noNul(fmt.Sprintf("task.command[%d]", i), arg)
	}
}

func (c *checker) noNul(at, text string) {
	if strings.ContainsRune(text, 0) {
		c.add(at, "Text with a NUL character", "No program can be given it.")
	}
}

func (c *checker) env(env map[string]string) {
	if len(env) > MaxEnv {
		c.add("task.env", "Too many variables", "There are %d; the limit is %d.", len(env), MaxEnv)
	}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		at := keyed("task.env", key)
		switch {
		case key == "" || strings.ContainsAny(key, "=\x00"):
			c.add(at, "Invalid variable name", "%q is empty or has an = or a NUL character.", key)
		case strings.HasPrefix(key, EnvPrefix):
			c.add(at, "Reserved variable name", "Names that begin with %s are set by Setpoint itself.", EnvPrefix)
		}
		c.noNul(at, env[key])
	}
}

func (c *checker) size(t *TaskSpec) {
	n := 0
	for _, arg := range t.Command {
		n += len(arg)
	}
	for _, m := range []map[string]string{t.Env, t.Config} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			n += len(k) + len(m[k])
		}
	}
	if n > MaxDescribing {
		c.add("task", "Task too large", "Its command, environment and driver settings have %d bytes; the limit is %d.", n, MaxDescribing)
	}
}

func (c *checker) resources(r Resources) {
	amount := func(at string, n int64) {
		if n < 0 {
			c.add(at, "Negative amount", "It cannot be less than 0.")
		}
	}
	amount("task.resources.cpu", r.MilliCPU)
	amount("task.resources.memory", r.Memory)
	if len(r.Units) > MaxTaskUnits {
		c.add("task.resources.units", "Too many units", "There are %d; the limit is %d.", len(r.Units), MaxTaskUnits)
	}
	for _, name := range r.UnitNames() {
		at := keyed("task.resources.units", name)
		c.name(at, name, "Invalid unit name", ValidateUnitName)
		amount(at, r.Units[name])
	}
}

func (c *checker) ports(ports []Port) {
	if len(ports) > MaxTaskPorts {
		c.add("task.port", "Too many ports", "There are %d; the limit is %d.", len(ports), MaxTaskPorts)
	}
	names, numbers := make(map[string]bool, len(ports)), make(map[uint16]string, len(ports))
	for _, p := range ports {
		at := keyed("task.port", p.Name)
		c.name(at, p.Name, "Invalid port name", ValidatePortName)
		if names[p.Name] {
			c.add(at, "Port given twice", "Each port of a task has a name of its own.")
		}
		names[p.Name] = true
		if p.Static == 0 {
			continue
		}
		if other, taken := numbers[p.Static]; taken {
			c.add(at+".static", "Port number given twice", "The port %q has the number %d already.", other, p.Static)
		}
		numbers[p.Static] = p.Name
	}
}

func (c *checker) addresses(addresses []Address) {
	if len(addresses) > MaxAddresses {
		c.add("task.address", "Too many addresses", "There are %d; the limit is %d.", len(addresses), MaxAddresses)
	}
	names := make(map[string]bool, len(addresses))
	for _, a := range addresses {
		at := keyed("task.address", a.Name)
		c.name(at, a.Name, "Invalid address name", ValidatePortName)
		c.name(at+".pool", a.Pool, "Invalid pool name", ValidateName)
		if names[a.Name] {
			c.add(at, "Address given twice", "Each address of a task has a name of its own.")
		}
		names[a.Name] = true
	}
}

func (c *checker) health(h *HealthSpec) {
	given := 0
	for _, set := range []bool{len(h.Exec) > 0, h.HTTP != "", h.TCP != ""} {
		if set {
			given++
		}
	}
	if given != 1 {
		c.add("task.health", "Not exactly one kind of check", "%d are given; give one of exec, http and tcp.", given)
	}
	if len(h.Exec) > 0 && h.Exec[0] == "" {
		c.add("task.health.exec[0]", "The program has no name", "The first element is the program to start.")
	}
	if h.HTTP != "" {
		c.httpCheck(h.HTTP)
	}
	if h.TCP != "" {
		c.tcpCheck(h.TCP)
	}
	c.positive("task.health.interval", h.Interval)
	c.positive("task.health.timeout", h.Timeout)
	c.notNegative("task.health.start_period", h.StartPeriod)
	c.between("task.health.retries", h.Retries, 1, MaxCount)
}

func (c *checker) httpCheck(address string) {
	u, err := url.Parse(withoutReferences(address))
	switch {
	case err != nil:
		c.add("task.health.http", "Not a URL", "%q cannot be read as one.", address)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		c.add("task.health.http", "Not an HTTP address", "%q must be like http://127.0.0.1:8080/healthz.", address)
	}
}

func (c *checker) tcpCheck(address string) {
	host, port, found := cutLast(withoutReferences(address), ":")
	_, err := strconv.ParseUint(port, 10, 16)
	if !found || host == "" || err != nil {
		c.add("task.health.tcp", "Not a TCP address", "%q must be like 127.0.0.1:8080.", address)
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// withoutReferences puts a digit in the place of each $NAME and ${NAME}, which stand for variables of the task's environment that are known only when it
// runs, such as $SETPOINT_PORT_http.
func withoutReferences(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteByte('1')
		if inBraces, ok := strings.CutPrefix(rest, "{"); ok {
			_, text, _ = strings.Cut(inBraces, "}")
			continue
		}
		text = strings.TrimLeftFunc(rest, func(r rune) bool { return isAlnum(r) || r == '_' })
	}
}
