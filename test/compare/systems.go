package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// service is what is to run: so many containers of an image.
type service struct {
	name, image string
	count       int
	constraint  string // label=value of nodes; empty: any node
}

// system is what is compared.
type system interface {
	name() string
	begin() error         // the cluster is made; all three nodes are ready when it returns
	end() error           // the services are gone
	run(s service) result // a service is made or changed, and not waited for
	filter() string       // by which the engines list a service's containers
	ready() int           // how many nodes it says are ready
	drain(node string)    // and wait for nothing
	activate(node string) //
	told(s string) string // what it says of a service, to somebody who asks what is wrong
	strike(k int)         // the daemon of a node is killed, and started again a second later
	strikeHead()          // the same for the one that decides
	answers() bool        // whether the one that decides answers
}

// swarm is a Docker Swarm with one manager.
type swarm struct{ lab *lab }

func (s *swarm) name() string              { return "Docker Swarm" }
func (s *swarm) head() *engine             { return s.lab.engines[0] }
func (s *swarm) ask(args ...string) result { return s.head().docker(args...) }
func (s *swarm) filter() string            { return "label=com.docker.swarm.service.name=" }

func (s *swarm) begin() error {
	if r := s.ask("swarm", "init", "--advertise-addr", s.head().address); !r.ok() {
		return errors.New(r.out)
	}
	token := strings.TrimSpace(s.ask("swarm", "join-token", "-q", "worker").out)
	for _, e := range s.lab.engines[1:] {
		if r := e.docker("swarm", "join", "--token", token, s.head().address+":2377"); !r.ok() {
			return errors.New(r.out)
		}
	}
	if !until(time.Minute, func() bool { return s.ready() == hosts }) {
		return errors.New("not all nodes are ready")
	}
	return nil
}

func (s *swarm) end() error {
	for name := range strings.FieldsSeq(s.ask("service", "ls", "-q").out) {
		s.ask("service", "rm", name)
	}
	for i := range s.lab.engines {
		s.lab.engines[hosts-1-i].docker("swarm", "leave", "--force")
	}
	return nil
}

func (s *swarm) run(v service) result {
	if s.ask("service", "inspect", v.name).ok() {
		return s.ask("service", "update", "--detach", "--no-resolve-image", "--image", v.image, "--replicas", strconv.Itoa(v.count), v.name)
	}
	args := []string{
		"service", "create", "--detach", "--no-resolve-image", "--name", v.name, "--replicas", strconv.Itoa(v.count), "--endpoint-mode", "dnsrr",
		"--update-parallelism", "1", "--update-monitor", "1s", "--restart-delay", "1s", "--stop-grace-period", "5s",
	}
	if v.constraint != "" {
		args = append(args, "--constraint", "node.labels."+strings.Replace(v.constraint, "=", "==", 1))
	}
	return s.ask(append(args, v.image)...)
}

func (s *swarm) ready() int {
	return strings.Count(s.ask("node", "ls", "--format", "{{.Status}}").out, "Ready")
}
func (s *swarm) drain(n string)    { s.ask("node", "update", "--availability", "drain", n) }
func (s *swarm) activate(n string) { s.ask("node", "update", "--availability", "active", n) }

func (s *swarm) told(name string) string {
	return s.ask("service", "ls", "--filter", "name="+name).out + "\n" + s.ask("service", "ps", name, "--no-trunc", "--format", "table {{.Name}}\t{{.Node}}\t{{.DesiredState}}\t{{.CurrentState}}\t{{.Error}}").out
}

func (s *swarm) strike(k int)  { s.lab.engines[k-1].kill() }
func (s *swarm) strikeHead()   { s.strike(1) }
func (s *swarm) answers() bool { return s.ask("service", "ls").ok() }

// setpoint is a Setpoint server on the first host, and an agent with the docker driver on each.
type setpoint struct {
	lab    *lab
	server *exec.Cmd
	agents [hosts]*exec.Cmd
}

func (s *setpoint) name() string   { return "Setpoint" }
func (s *setpoint) filter() string { return "label=setpoint.job=" }
func (s *setpoint) program() string {
	path, _ := filepath.Abs(filepath.Join(s.lab.bin, "setpoint"))
	return path
}
func (s *setpoint) dir() string     { return filepath.Join(s.lab.dir, "server") }
func (s *setpoint) address() string { return s.lab.engines[0].address + ":7480" }
func (s *setpoint) ask(args ...string) result {
	return s.lab.engines[0].within(append([]string{s.program()}, append(args, "--data-dir", s.dir())...)...)
}

// launch starts setpoint at a host.
func (s *setpoint) launch(k int, log string, args ...string) *exec.Cmd {
	out, err := os.OpenFile(filepath.Join(s.lab.dir, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	defer out.Close()
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/" + s.lab.engines[k-1].space, s.program()}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Start()
	return cmd
}

func (s *setpoint) startServer() {
	s.server = s.launch(1, "server.log", "server", "--data-dir", s.dir(), "--listen", s.address())
}

func (s *setpoint) startAgent(k int) {
	e := s.lab.engines[k-1]
	args := []string{"agent", "--data-dir", filepath.Join(s.lab.dir, "agent-"+e.name), "--name", e.name, "--driver", "docker", "--docker-host", e.host()}
	if token := s.ask("token", "create"); token.ok() {
		args = append(args, "--join", strings.TrimSpace(token.out)+"@"+s.address())
	}
	s.agents[k-1] = s.launch(k, e.name+".log", args...)
}

func (s *setpoint) begin() error {
	s.startServer()
	if !until(time.Minute, s.answers) {
		return errors.New("the server does not answer")
	}
	for k := 1; k <= hosts; k++ {
		s.startAgent(k)
	}
	if !until(time.Minute, func() bool { return s.ready() == hosts }) {
		return errors.New("not all nodes are ready: " + s.ask("node", "ls").out)
	}
	return nil
}

func (s *setpoint) end() error {
	for _, a := range s.agents {
		_ = a.Process.Kill()
		_ = a.Wait()
	}
	_ = s.server.Process.Signal(syscall.SIGTERM)
	return s.server.Wait()
}

func (s *setpoint) run(v service) result {
	constraints := ""
	if v.constraint != "" {
		constraints = fmt.Sprintf("constraints = [%q]\n", "node.labels."+strings.Replace(v.constraint, "=", " == ", 1))
	}
	text := fmt.Sprintf(`job %q {
  type  = "replicated"
  count = %d
  %s
  task {
    driver = "docker"
    config = { image = %q }
    stop {
      grace = "5s"
    }
  }
  update {
    parallelism = 1
    monitor     = "1s"
  }
  restart {
    delay = "1s"
  }
}
`, v.name, v.count, constraints, v.image)
	path := filepath.Join(s.lab.dir, v.name+".hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return result{err: err}
	}
	return s.ask("job", "run", path, "--detach")
}

func (s *setpoint) ready() int {
	return strings.Count(s.ask("node", "ls", "-o", "json").out, `"ready"`)
}
func (s *setpoint) drain(n string)    { s.ask("node", "drain", n) }
func (s *setpoint) activate(n string) { s.ask("node", "activate", n) }
func (s *setpoint) told(name string) string {
	return s.ask("job", "ls").out + "\n" + s.ask("stalls", "--job", name).out
}

func (s *setpoint) strike(k int) {
	_ = s.agents[k-1].Process.Kill()
	_ = s.agents[k-1].Wait()
	<-time.After(time.Second)
	s.startAgent(k)
}

func (s *setpoint) strikeHead() {
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
	<-time.After(time.Second)
	s.startServer()
}

func (s *setpoint) answers() bool { return s.ask("job", "ls").ok() }
