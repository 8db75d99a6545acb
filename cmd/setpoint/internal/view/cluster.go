package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Plugin is a plugin as `plugin ls` prints it.
type Plugin struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	State      string   `json:"state"`
	PID        int64    `json:"pid"` // 0: no process
	Restarts   int64    `json:"restarts"`
	Interfaces []string `json:"interfaces"`
	JobTypes   []string `json:"job_types"`
	Message    string   `json:"message"`
	Since      Moment   `json:"since"`
	Stalls     []Stall  `json:"stalls"`
}

// OfPlugins returns the views of plugins.
func OfPlugins(in []*apiv1.Plugin) []Plugin {
	return each(in, func(p *apiv1.Plugin) Plugin {
		return Plugin{
			Name: p.GetName(), Version: p.GetVersion(), State: p.GetState(), PID: p.GetPid(), Restarts: p.GetRestarts(), Interfaces: words(p.GetInterfaces()),
			JobTypes: words(p.GetJobTypes()), Message: p.GetMessage(), Since: moment(p.GetSince()), Stalls: OfStalls(p.GetStalls()),
		}
	})
}

// Status is the server and its cluster as `status` prints them.
type Status struct {
	PID       int64    `json:"pid"`
	Address   string   `json:"address"`
	Version   string   `json:"version"`
	ClusterID string   `json:"cluster_id"`
	Started   Moment   `json:"started"`
	Revision  uint64   `json:"revision"`
	Ready     bool     `json:"ready"`
	NotReady  string   `json:"not_ready"`
	Counts    Counts   `json:"counts"`
	Plugins   []Plugin `json:"plugins"`
}

// Counts say what there is.
type Counts struct {
	Nodes         map[string]int64 `json:"nodes"` // by state
	NodesDraining int64            `json:"nodes_draining"`
	NodesPaused   int64            `json:"nodes_paused"`
	Jobs          int64            `json:"jobs"`
	Tasks         map[string]int64 `json:"tasks"` // by phase
	Stalls        int64            `json:"stalls"`
}

// OfStatus returns the view of a server that is reached at an address.
func OfStatus(s *apiv1.GetStatusResponse, address string) Status {
	return Status{
		PID: s.GetPid(), Address: address, Version: s.GetVersion(), ClusterID: s.GetClusterId(), Started: moment(s.GetStarted()), Revision: s.GetRevision(),
		Ready: s.GetReady(), NotReady: s.GetNotReady(), Plugins: OfPlugins(s.GetPlugins()),
		Counts: Counts{
			Nodes: counts(s.GetNodes()), NodesDraining: s.GetNodesDraining(), NodesPaused: s.GetNodesPaused(), Jobs: s.GetJobs(),
			Tasks: counts(s.GetTasks()), Stalls: s.GetStalls(),
		},
	}
}

func counts(in map[string]int64) map[string]int64 {
	if in == nil {
		return map[string]int64{}
	}
	return in
}

// Token is a join token without its secret, as `token ls` prints it.
type Token struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Name    string `json:"name"` // under which its bearer logs in; "": as he says
	Created Moment `json:"created"`
	Expires Moment `json:"expires"`
	Token   string `json:"token,omitempty"` // the text itself, from `token create` only
}

// OfToken returns a token's view.
func OfToken(t *apiv1.Token) Token {
	return Token{ID: t.GetId(), Role: t.GetRole(), Name: t.GetName(), Created: moment(t.GetCreated()), Expires: moment(t.GetExpires())}
}

// OfTokens returns the views of tokens.
func OfTokens(in []*apiv1.Token) []Token { return each(in, OfToken) }
