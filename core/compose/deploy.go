package compose

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// deploy is the service's section of that name, empty if it has none.
func (c *conversion) deploy() *types.DeployConfig {
	if c.service.Deploy == nil {
		return &types.DeployConfig{}
	}
	return c.service.Deploy
}

// jobType is the job's type, and whether its tasks end by themselves.
func (c *conversion) jobType() (string, bool) {
	switch c.deploy().Mode {
	case "global":
		return cluster.TypeGlobal, false
	case "replicated-job":
		return cluster.TypeBatch, true
	case "global-job":
		return cluster.TypeGlobalBatch, true
	}
	return cluster.TypeReplicated, false
}

func (c *conversion) mode() {
	c.from("type", "deploy", "mode")
	if mode := c.deploy().Mode; mode != "" && mode != "replicated" && mode != "global" && mode != "replicated-job" && mode != "global-job" {
		c.wrong("type", keys("deploy.mode"), "Unknown mode", "There is no %q; use \"replicated\", \"global\", \"replicated-job\" or \"global-job\".", mode)
	}
	kind, _ := c.jobType()
	c.say(func(s *cluster.JobSpec) { s.Type = kind })
	steps := keys("deploy.replicas")
	count := c.deploy().Replicas
	if !c.has(steps...) {
		steps, count = keys("scale"), c.service.Scale
	}
	if count == nil {
		return
	}
	c.from("count", steps...)
	if kind == cluster.TypeGlobal || kind == cluster.TypeGlobalBatch {
		c.hint(steps, "a global job has one task on every eligible node")
		return
	}
	n := *count
	c.say(func(s *cluster.JobSpec) { s.Count = n })
}

func (c *conversion) update() {
	steps := keys("deploy.update_config")
	u := c.deploy().UpdateConfig
	c.from("update", steps...)
	if u == nil {
		c.rollback(&types.UpdateConfig{})
		return
	}
	if u.Parallelism != nil {
		n := whole(*u.Parallelism)
		c.from("update.parallelism", append(steps, "parallelism")...)
		c.say(func(s *cluster.JobSpec) { s.Update.Parallelism = n })
		c.unavailable(n)
	}
	c.pace(u, steps)
	c.rollback(u)
}

// pace reads all of an update's section but its parallelism. Unlike a service that says nothing, one with the section has all of Swarm's defaults.
func (c *conversion) pace(u *types.UpdateConfig, steps []string) {
	at := func(path, key string) { c.from("update."+path, append(steps, key)...) }
	if u.Delay != 0 {
		at("delay", "delay")
		c.say(func(s *cluster.JobSpec) { s.Update.Delay = time.Duration(u.Delay) })
	}
	if c.has(append(steps, "monitor")...) {
		at("monitor", "monitor")
		c.say(func(s *cluster.JobSpec) { s.Update.Monitor = time.Duration(u.Monitor) })
	}
	if u.Order != "" {
		at("order", "order")
		c.say(func(s *cluster.JobSpec) { s.Update.Order = cluster.Order(u.Order) })
	}
	if u.FailureAction != "" {
		at("on_failure", "failure_action")
		c.say(func(s *cluster.JobSpec) { s.Update.OnFailure = cluster.OnFailure(u.FailureAction) })
	}
	if ratio, ok := c.number(append(steps, "max_failure_ratio")...); ok {
		at("max_failure_ratio", "max_failure_ratio")
		c.say(func(s *cluster.JobSpec) { s.Update.MaxFailureRatio = ratio })
	}
}

// unavailable lets as many tasks be away at a time as an update moves, which Setpoint limits by a job's budget as well.
func (c *conversion) unavailable(parallelism int) {
	c.from("max_unavailable", "deploy", "update_config", "parallelism")
	c.say(func(s *cluster.JobSpec) {
		switch least := (cluster.Amount{Percent: cluster.DefaultUnavailable}); {
		case parallelism == 0:
			s.MaxUnavailable = cluster.Amount{Percent: 100}
		case s.Numbered() && parallelism > least.Of(s.Count):
			s.MaxUnavailable = cluster.Amount{Count: parallelism}
		}
	})
}

// rollback tells what a rollback would do otherwise than an update does.
func (c *conversion) rollback(u *types.UpdateConfig) {
	steps := keys("deploy.rollback_config")
	if !c.has(steps...) {
		return
	}
	r := c.deploy().RollbackConfig
	differs := func(key string, same bool, hint bool) {
		if !same {
			at := append(steps, key)
			c.tell(c.at(at...), at, hint, "a rollback goes by the update section, which says otherwise")
		}
	}
	differs("parallelism", parallelism(r) == parallelism(u), true)
	differs("delay", r.Delay == u.Delay, true)
	differs("monitor", monitor(r) == monitor(u), true)
	differs("max_failure_ratio", r.MaxFailureRatio == u.MaxFailureRatio, true)
	differs("order", word(r.Order, "stop-first") == word(u.Order, "stop-first"), false)
	failure := word(r.FailureAction, "pause")
	differs("failure_action", failure == "pause" || failure == word(u.FailureAction, "pause"), true)
}

func parallelism(u *types.UpdateConfig) int {
	if u.Parallelism == nil {
		return 1
	}
	return whole(*u.Parallelism)
}

func monitor(u *types.UpdateConfig) time.Duration {
	if u.Monitor == 0 {
		return cluster.DefaultMonitor
	}
	return time.Duration(u.Monitor)
}

func word(said, unsaid string) string {
	if said == "" {
		return unsaid
	}
	return said
}

func whole(n uint64) int { return int(min(n, math.MaxInt32)) }

// number reads a number of the model, which may stand there as text.
func (c *conversion) number(steps ...string) (float64, bool) {
	v, ok := c.value(steps...)
	if !ok {
		return 0, false
	}
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case float32:
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return f, err == nil
	}
	return 0, false
}

// swarmRestartDelay is the delay of a restart_policy that says none.
const swarmRestartDelay = 5 * time.Second

func (c *conversion) restart() {
	if !c.has("deploy", "restart_policy") {
		c.plainRestart()
		return
	}
	steps := keys("deploy.restart_policy")
	p := c.deploy().RestartPolicy
	c.from("restart", steps...)
	if p.Condition != "" {
		c.from("restart.condition", append(steps, "condition")...)
		c.condition(p.Condition, append(steps, "condition"))
	}
	delay := swarmRestartDelay
	if p.Delay != nil {
		delay = time.Duration(*p.Delay)
	}
	for _, path := range []string{"restart.delay", "restart.max_delay"} {
		c.from(path, append(steps, "delay")...)
	}
	c.say(func(s *cluster.JobSpec) { s.Restart.Delay, s.Restart.MaxDelay = delay, delay })
	c.attempts(p, delay, steps)
}

// attempts limits restarts. A limit that could never be reached is none, in Swarm as here, where it is refused.
func (c *conversion) attempts(p *types.RestartPolicy, delay time.Duration, steps []string) {
	window := durationOf(p.Window)
	n := 0
	if p.MaxAttempts != nil {
		n = whole(*p.MaxAttempts)
	}
	switch {
	case p.Condition == "none" && n > 0:
		c.hint(append(steps, "max_attempts"), "nothing is restarted")
		return
	case n > 0 && window > 0 && (delay >= window || time.Duration(n-1) >= (window+delay-1)/max(delay, 1) && delay > 0):
		c.hint(append(steps, "max_attempts"), "with a delay of %s so many restarts are never within the window (%s), so that the limit would never count", delay, window)
		return
	case n == 0 && window > 0:
		c.hint(append(steps, "window"), "it counts for max_attempts only, which is not given")
		return
	case n == 0:
		return
	}
	c.from("restart.attempts", append(steps, "max_attempts")...)
	c.from("restart.window", append(steps, "window")...)
	c.say(func(s *cluster.JobSpec) { s.Restart.Attempts, s.Restart.Window = n, window })
}

func (c *conversion) condition(condition string, steps []string) {
	_, ends := c.jobType()
	switch condition {
	case "any":
		if ends { // what ended well has done its work, in Swarm as well
			condition = string(cluster.RestartOnFailure)
		}
	case "none", "on-failure":
	default:
		c.wrong("restart.condition", steps, "Unknown condition", "There is no %q; use \"none\", \"on-failure\" or \"any\".", condition)
		return
	}
	c.say(func(s *cluster.JobSpec) { s.Restart.Condition = cluster.RestartCondition(condition) })
}

// plainRestart reads the key that Compose without Swarm has.
func (c *conversion) plainRestart() {
	if c.service.Restart == "" {
		return
	}
	steps := keys("restart")
	c.from("restart", steps...)
	c.from("restart.condition", steps...)
	c.from("restart.attempts", steps...)
	condition, limit, limited := strings.Cut(c.service.Restart, ":")
	switch condition {
	case "no":
		c.condition("none", steps)
	case "always", "unless-stopped":
		c.condition("any", steps)
	case "on-failure":
		c.condition("on-failure", steps)
		if n, err := strconv.Atoi(limit); limited && err == nil && n > 0 {
			c.say(func(s *cluster.JobSpec) { s.Restart.Attempts, s.Restart.Window = n, 0 })
		}
	default:
		c.wrong("restart.condition", steps, "Unknown restart policy", "There is no %q; use \"no\", \"always\", \"on-failure\" or \"unless-stopped\".", c.service.Restart)
	}
}
