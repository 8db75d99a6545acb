package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/hashicorp/hcl/v2"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/core/jobfile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// conversion makes a job of one service.
type conversion struct {
	hcltext.Decoder // what is wrong, and where each part of the job stood

	name    string
	service types.ServiceConfig
	model   map[string]any // the same, with nothing left out
	loaded  *loaded
	places  *places

	said        []func(*cluster.JobSpec)
	config      map[string]string // for the driver
	constraints []string
	losses      []Loss
}

// job converts the service. What is wrong with it is in Diags, what is lost in losses.
func (c *conversion) job() *jobfile.Job {
	c.config = make(map[string]string)
	c.Record("", c.at())
	c.Record("name", c.at())
	c.say(func(s *cluster.JobSpec) {
		s.Name = jobName(c.loaded.stack, c.name)
		s.Task.Driver = cluster.DriverDocker
	})
	c.Record("task", c.at())
	c.walk(nil, c.model)
	c.mode()
	c.placement()
	c.update()
	c.restart()
	c.image()
	c.run()
	c.env()
	c.labels()
	c.resources()
	c.ports()
	c.mounts()
	c.secrets()
	c.health()
	c.stop()
	c.network()
	c.logging()
	c.privileges()
	c.finish()
	job := &jobfile.Job{Spec: c.spec(), Ranges: c.Ranges}
	for _, p := range job.Spec.Validate() {
		if !c.Failed(p.Path) {
			c.Diags = append(c.Diags, job.Diagnose([]cluster.Problem{p})...)
		}
	}
	return job
}

// say remembers one thing that the service says. It is applied before defaults and after them, so that what was said to be 0 stays 0.
func (c *conversion) say(f func(*cluster.JobSpec)) { c.said = append(c.said, f) }

func (c *conversion) spec() cluster.JobSpec {
	var s cluster.JobSpec
	for _, f := range c.said {
		f(&s)
	}
	s = s.WithDefaults()
	for _, f := range c.said {
		f(&s)
	}
	return s
}

func (c *conversion) finish() {
	config := c.config
	c.say(func(s *cluster.JobSpec) { s.Task.Config = maps.Clone(config) })
	if len(c.constraints) == 0 {
		return
	}
	items := make([]any, len(c.constraints))
	for i, each := range c.constraints {
		items[i] = each
	}
	text, err := hcltext.Encode(map[string]any{"constraints": items})
	if err != nil {
		c.Fail("constraints", c.at("deploy", "placement"), "Constraints cannot be passed on", sentence(err.Error()))
		return
	}
	c.say(func(s *cluster.JobSpec) { s.Plugins = []cluster.PluginSettings{{Plugin: "constraint", JSON: text}} })
}

// at is where something of the service stood, or the service itself.
func (c *conversion) at(steps ...string) hcl.Range {
	return c.places.of(append([]string{"services", c.name}, steps...)...)
}

// value is what the model has at a place in the service.
func (c *conversion) value(steps ...string) (any, bool) {
	var v any = c.model
	for _, step := range steps {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[step]; !ok {
			return nil, false
		}
	}
	return v, v != nil
}

// has reports whether the service says something at a place.
func (c *conversion) has(steps ...string) bool {
	_, ok := c.value(steps...)
	return ok
}

// from records that a part of the job comes from a place in the service.
func (c *conversion) from(path string, steps ...string) { c.Record(path, c.at(steps...)) }

// lose tells of a loss that changes what runs.
func (c *conversion) lose(steps []string, format string, args ...any) {
	c.tell(c.at(steps...), steps, false, format, args...)
}

// hint tells of a loss that does not.
func (c *conversion) hint(steps []string, format string, args ...any) {
	c.tell(c.at(steps...), steps, true, format, args...)
}

func (c *conversion) tell(at hcl.Range, steps []string, hint bool, format string, args ...any) {
	why := format
	if len(args) > 0 {
		why = fmt.Sprintf(format, args...)
	}
	c.losses = append(c.losses, Loss{At: at, Service: c.name, Key: key(steps), Why: why, Hint: hint})
}

// wrong tells of a mistake that nobody can accept.
func (c *conversion) wrong(path string, steps []string, summary, format string, args ...any) {
	c.Fail(path, c.at(steps...), summary, fmt.Sprintf(format, args...))
}

// set gives the driver a setting.
func (c *conversion) set(name, value string, steps ...string) {
	c.config[name] = value
	c.from(hcltext.Keyed("task.config", name), steps...)
}

// setList gives the driver a setting that is a list or a map.
func (c *conversion) setList(name string, value any, steps ...string) {
	text, err := hcltext.Encode(value)
	if err != nil {
		c.wrong("task.config", steps, "Setting cannot be passed on", "%s", sentence(err.Error()))
		return
	}
	c.set(name, text, steps...)
}

// jobName makes a job's name of a stack's and a service's.
func jobName(stack, service string) string {
	name := service
	if stack != "" {
		name = stack + "-" + service
	}
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, strings.ToLower(name))
	return strings.Trim(name, "-")
}

// keys splits a key into steps.
func keys(key string) []string { return strings.Split(key, ".") }

func sortedCopy(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}

func durationOf(d *types.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return time.Duration(*d)
}
