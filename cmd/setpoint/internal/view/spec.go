package view

import (
	"encoding/json"
	"fmt"
	"time"

	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// JobSpec is what was asked for, with the words of the job language.
type JobSpec struct {
	Name           string                     `json:"name"`
	Type           string                     `json:"type"`
	Count          int64                      `json:"count"`
	Parallelism    int64                      `json:"parallelism"`
	Priority       int64                      `json:"priority"`
	Labels         map[string]string          `json:"labels"`
	Plugins        map[string]json.RawMessage `json:"plugin"`
	MaxUnavailable Amount                     `json:"max_unavailable"`
	MaxPerNode     int64                      `json:"max_per_node"`
	OnDrift        string                     `json:"on_drift"`
	OnLost         string                     `json:"on_lost"`
	LostAfter      string                     `json:"lost_after"`
	OnDrain        string                     `json:"on_drain"`
	Strategy       string                     `json:"strategy"`
	Spread         []Spread                   `json:"spread"`
	HistoryLimit   int64                      `json:"history_limit"`
	Task           TaskSpec                   `json:"task"`
	Update         UpdateSpec                 `json:"update"`
	Restart        RestartSpec                `json:"restart"`
}

// Amount is a number, or a percentage if that is not 0.
type Amount struct {
	Count   int64 `json:"count"`
	Percent int64 `json:"percent"`
}

// Spread asks for tasks to be spread over the values of an attribute.
type Spread struct {
	Attribute string           `json:"attribute"`
	Targets   map[string]int64 `json:"targets"` // percent by value
}

// TaskSpec is what a task runs.
type TaskSpec struct {
	Driver    string            `json:"driver"`
	Command   []string          `json:"command"`
	Dir       string            `json:"dir"`
	User      string            `json:"user"`
	Env       map[string]string `json:"env"`
	Config    map[string]string `json:"config"`
	Resources Resources         `json:"resources"`
	Ports     []SpecPort        `json:"port"`
	Addresses []SpecAddress     `json:"address"`
	Secrets   []SpecSecret      `json:"secret"`
	Stop      StopSpec          `json:"stop"`
	Health    *HealthSpec       `json:"health"`
}

// SpecAddress is an address that a task needs of a pool.
type SpecAddress struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
}

// SpecSecret is a secret that a task needs, by its name.
type SpecSecret struct {
	Name    string `json:"name"`
	Version uint64 `json:"version"`
	Target  string `json:"target"` // name of the file
	Mode    string `json:"mode"`   // octal
	Owner   string `json:"owner"`  // empty: who the task runs as
}

// SpecPort is a port that a task needs.
type SpecPort struct {
	Name   string `json:"name"`
	Static uint32 `json:"static"` // 0: any free one
}

// StopSpec says how a task is stopped.
type StopSpec struct {
	Signal string `json:"signal"`
	Grace  string `json:"grace"`

	AfterDisconnect string `json:"after_disconnect"` // 0s: never
}

// HealthSpec says how to find out whether a task does its work.
type HealthSpec struct {
	Exec        []string `json:"exec"`
	HTTP        string   `json:"http"`
	TCP         string   `json:"tcp"`
	Interval    string   `json:"interval"`
	Timeout     string   `json:"timeout"`
	StartPeriod string   `json:"start_period"`
	Retries     int64    `json:"retries"`
}

// UpdateSpec says how slots move to a new version.
type UpdateSpec struct {
	Parallelism      int64   `json:"parallelism"`
	Delay            string  `json:"delay"`
	Order            string  `json:"order"`
	Monitor          string  `json:"monitor"`
	OnFailure        string  `json:"on_failure"`
	MaxFailureRatio  float64 `json:"max_failure_ratio"`
	ProgressDeadline string  `json:"progress_deadline"`
}

// RestartSpec says when a task that ended is replaced.
type RestartSpec struct {
	Condition string `json:"condition"`
	Delay     string `json:"delay"`
	MaxDelay  string `json:"max_delay"`
	Attempts  int64  `json:"attempts"`
	Window    string `json:"window"`
}

func nanoseconds(ns int64) string { return time.Duration(ns).String() }

func ofJobSpec(s *setpointv1.JobSpec) *JobSpec {
	if s == nil {
		return nil
	}
	u, r := s.GetUpdate(), s.GetRestart()
	out := &JobSpec{
		Name: s.GetName(), Type: s.GetType(), Count: s.GetCount(), Parallelism: s.GetParallelism(), Priority: s.GetPriority(), Labels: labels(s.GetLabels()),
		Plugins:        map[string]json.RawMessage{},
		MaxUnavailable: Amount{Count: s.GetMaxUnavailable().GetCount(), Percent: s.GetMaxUnavailable().GetPercent()},
		MaxPerNode:     s.GetMaxPerNode(), OnDrift: s.GetOnDrift(), OnLost: s.GetOnLost(), LostAfter: nanoseconds(s.GetLostAfterNs()),
		OnDrain: s.GetOnDrain(), Strategy: s.GetStrategy(), HistoryLimit: s.GetHistoryLimit(),
		Spread: each(s.GetSpread(), func(p *setpointv1.Spread) Spread {
			out := Spread{Attribute: p.GetAttribute(), Targets: map[string]int64{}}
			for _, t := range p.GetTargets() {
				out.Targets[t.GetValue()] = t.GetPercent()
			}
			return out
		}),
		Task: ofTaskSpec(s.GetTask()),
		Update: UpdateSpec{
			Parallelism: u.GetParallelism(), Delay: nanoseconds(u.GetDelayNs()), Order: u.GetOrder(), Monitor: nanoseconds(u.GetMonitorNs()),
			OnFailure: u.GetOnFailure(), MaxFailureRatio: u.GetMaxFailureRatio(), ProgressDeadline: nanoseconds(u.GetProgressDeadlineNs()),
		},
		Restart: RestartSpec{
			Condition: r.GetCondition(), Delay: nanoseconds(r.GetDelayNs()), MaxDelay: nanoseconds(r.GetMaxDelayNs()), Attempts: r.GetAttempts(),
			Window: nanoseconds(r.GetWindowNs()),
		},
	}
	for _, p := range s.GetPlugins() {
		out.Plugins[p.GetPlugin()] = settings(p.GetJson())
	}
	return out
}

// settings returns what a job says to a plugin; what is not JSON is written as text, so that it can be seen.
func settings(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // text can always be encoded
	return quoted
}

func ofTaskSpec(t *setpointv1.TaskSpec) TaskSpec {
	out := TaskSpec{
		Driver: t.GetDriver(), Command: words(t.GetCommand()), Dir: t.GetDir(), User: t.GetUser(), Env: labels(t.GetEnv()), Config: labels(t.GetConfig()),
		Resources: resources(t.GetResources()),
		Ports: each(t.GetPorts(), func(p *setpointv1.Port) SpecPort {
			return SpecPort{Name: p.GetName(), Static: p.GetStatic()}
		}),
		Addresses: each(t.GetAddresses(), func(a *setpointv1.Address) SpecAddress {
			return SpecAddress{Name: a.GetName(), Pool: a.GetPool()}
		}),
		Secrets: each(t.GetSecrets(), func(s *setpointv1.Secret) SpecSecret {
			return SpecSecret{Name: s.GetName(), Version: s.GetVersion(), Target: s.GetTarget(), Mode: fmt.Sprintf("%04o", s.GetMode()), Owner: s.GetOwner()}
		}),
		Stop: StopSpec{Signal: t.GetStop().GetSignal(), Grace: nanoseconds(t.GetStop().GetGraceNs()), AfterDisconnect: nanoseconds(t.GetStop().GetAfterDisconnectNs())},
	}
	if h := t.GetHealth(); h != nil {
		out.Health = &HealthSpec{
			Exec: words(h.GetExec()), HTTP: h.GetHttp(), TCP: h.GetTcp(), Interval: nanoseconds(h.GetIntervalNs()), Timeout: nanoseconds(h.GetTimeoutNs()),
			StartPeriod: nanoseconds(h.GetStartPeriodNs()), Retries: h.GetRetries(),
		}
	}
	return out
}
