package wire

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// JobSpecToProto returns the message of s.
func JobSpecToProto(s *cluster.JobSpec) *setpointv1.JobSpec {
	return &setpointv1.JobSpec{
		Name:           s.Name,
		Type:           s.Type,
		Count:          int64(s.Count),
		Parallelism:    int64(s.Parallelism),
		Priority:       int64(s.Priority),
		Labels:         mapOrNil(s.Labels),
		Plugins:        each(s.Plugins, pluginSettingsToProto),
		MaxUnavailable: &setpointv1.Amount{Count: int64(s.MaxUnavailable.Count), Percent: int64(s.MaxUnavailable.Percent)},
		MaxPerNode:     int64(s.MaxPerNode),
		OnDrift:        string(s.OnDrift),
		OnLost:         string(s.OnLost),
		LostAfterNs:    int64(s.LostAfter),
		OnDrain:        string(s.OnDrain),
		Strategy:       string(s.Strategy),
		Spread:         each(s.Spread, spreadToProto),
		HistoryLimit:   int64(s.HistoryLimit),
		Task:           TaskSpecToProto(&s.Task),
		Update:         updateSpecToProto(s.Update),
		Restart:        restartSpecToProto(s.Restart),
	}
}

// JobSpecFromProto returns the specification that p says, or an error that wraps ErrRange if a port number in it is none. It checks nothing else; see
// cluster.JobSpec.Validate.
func JobSpecFromProto(p *setpointv1.JobSpec) (cluster.JobSpec, error) {
	task, err := TaskSpecFromProto(p.GetTask())
	if err != nil {
		return cluster.JobSpec{}, fmt.Errorf("task: %w", err)
	}
	return cluster.JobSpec{
		Name:           p.GetName(),
		Type:           p.GetType(),
		Count:          int(p.GetCount()),
		Parallelism:    int(p.GetParallelism()),
		Priority:       int(p.GetPriority()),
		Labels:         mapOrNil(p.GetLabels()),
		Plugins:        each(p.GetPlugins(), pluginSettingsFromProto),
		MaxUnavailable: cluster.Amount{Count: int(p.GetMaxUnavailable().GetCount()), Percent: int(p.GetMaxUnavailable().GetPercent())},
		MaxPerNode:     int(p.GetMaxPerNode()),
		OnDrift:        cluster.OnDrift(p.GetOnDrift()),
		OnLost:         cluster.OnLost(p.GetOnLost()),
		LostAfter:      duration(p.GetLostAfterNs()),
		OnDrain:        cluster.OnDrain(p.GetOnDrain()),
		Strategy:       cluster.Strategy(p.GetStrategy()),
		Spread:         each(p.GetSpread(), spreadFromProto),
		HistoryLimit:   int(p.GetHistoryLimit()),
		Task:           task,
		Update:         updateSpecFromProto(p.GetUpdate()),
		Restart:        restartSpecFromProto(p.GetRestart()),
	}, nil
}

func pluginSettingsToProto(s cluster.PluginSettings) *setpointv1.PluginSettings {
	return &setpointv1.PluginSettings{Plugin: s.Plugin, Json: s.JSON}
}

func pluginSettingsFromProto(p *setpointv1.PluginSettings) cluster.PluginSettings {
	return cluster.PluginSettings{Plugin: p.GetPlugin(), JSON: p.GetJson()}
}

func spreadToProto(s cluster.Spread) *setpointv1.Spread {
	return &setpointv1.Spread{Attribute: s.Attribute, Targets: each(s.Targets, func(t cluster.SpreadTarget) *setpointv1.SpreadTarget {
		return &setpointv1.SpreadTarget{Value: t.Value, Percent: int64(t.Percent)}
	})}
}

func spreadFromProto(p *setpointv1.Spread) cluster.Spread {
	return cluster.Spread{Attribute: p.GetAttribute(), Targets: each(p.GetTargets(), func(t *setpointv1.SpreadTarget) cluster.SpreadTarget {
		return cluster.SpreadTarget{Value: t.GetValue(), Percent: int(t.GetPercent())}
	})}
}

// TaskSpecToProto returns the message of s.
func TaskSpecToProto(s *cluster.TaskSpec) *setpointv1.TaskSpec {
	return &setpointv1.TaskSpec{
		Driver:    s.Driver,
		Command:   listOrNil(s.Command),
		Dir:       s.Dir,
		User:      s.User,
		Env:       mapOrNil(s.Env),
		Config:    mapOrNil(s.Config),
		Resources: ResourcesToProto(s.Resources),
		Ports:     each(s.Ports, PortToProto),
		Addresses: each(s.Addresses, addressToProto),
		Secrets:   each(s.Secrets, secretToProto),
		Stop:      &setpointv1.StopSpec{Signal: s.Stop.Signal, GraceNs: int64(s.Stop.Grace), AfterDisconnectNs: int64(s.Stop.AfterDisconnect)},
		Health:    HealthSpecToProto(s.Health),
	}
}

// TaskSpecFromProto returns what p says a task runs, or an error that wraps ErrRange if a port number in it is none.
func TaskSpecFromProto(p *setpointv1.TaskSpec) (cluster.TaskSpec, error) {
	ports, err := tryEach(p.GetPorts(), PortFromProto)
	if err != nil {
		return cluster.TaskSpec{}, err
	}
	return cluster.TaskSpec{
		Driver:    p.GetDriver(),
		Command:   listOrNil(p.GetCommand()),
		Dir:       p.GetDir(),
		User:      p.GetUser(),
		Env:       mapOrNil(p.GetEnv()),
		Config:    mapOrNil(p.GetConfig()),
		Resources: ResourcesFromProto(p.GetResources()),
		Ports:     ports,
		Addresses: each(p.GetAddresses(), addressFromProto),
		Secrets:   each(p.GetSecrets(), secretFromProto),
		Stop: cluster.StopSpec{
			Signal: p.GetStop().GetSignal(), Grace: duration(p.GetStop().GetGraceNs()), AfterDisconnect: duration(p.GetStop().GetAfterDisconnectNs()),
		},
		Health: HealthSpecFromProto(p.GetHealth()),
	}, nil
}

func secretToProto(s cluster.Secret) *setpointv1.Secret {
	return &setpointv1.Secret{Name: s.Name, Version: s.Version, Target: s.Target, Mode: s.Mode, Owner: s.Owner}
}

func secretFromProto(p *setpointv1.Secret) cluster.Secret {
	return cluster.Secret{Name: p.GetName(), Version: p.GetVersion(), Target: p.GetTarget(), Mode: p.GetMode(), Owner: p.GetOwner()}
}

// HealthSpecToProto returns the message of h; nil, which is no check, stays nil.
func HealthSpecToProto(h *cluster.HealthSpec) *setpointv1.HealthSpec {
	if h == nil {
		return nil
	}
	return &setpointv1.HealthSpec{
		Exec:          listOrNil(h.Exec),
		Http:          h.HTTP,
		Tcp:           h.TCP,
		IntervalNs:    int64(h.Interval),
		TimeoutNs:     int64(h.Timeout),
		StartPeriodNs: int64(h.StartPeriod),
		Retries:       int64(h.Retries),
	}
}

// HealthSpecFromProto returns the check that p says; nil, which is no check, stays nil.
func HealthSpecFromProto(p *setpointv1.HealthSpec) *cluster.HealthSpec {
	if p == nil {
		return nil
	}
	return &cluster.HealthSpec{
		Exec:        listOrNil(p.GetExec()),
		HTTP:        p.GetHttp(),
		TCP:         p.GetTcp(),
		Interval:    duration(p.GetIntervalNs()),
		Timeout:     duration(p.GetTimeoutNs()),
		StartPeriod: duration(p.GetStartPeriodNs()),
		Retries:     int(p.GetRetries()),
	}
}

func updateSpecToProto(s cluster.UpdateSpec) *setpointv1.UpdateSpec {
	return &setpointv1.UpdateSpec{
		Parallelism:        int64(s.Parallelism),
		DelayNs:            int64(s.Delay),
		Order:              string(s.Order),
		MonitorNs:          int64(s.Monitor),
		OnFailure:          string(s.OnFailure),
		MaxFailureRatio:    s.MaxFailureRatio,
		ProgressDeadlineNs: int64(s.ProgressDeadline),
	}
}

func updateSpecFromProto(p *setpointv1.UpdateSpec) cluster.UpdateSpec {
	return cluster.UpdateSpec{
		Parallelism:      int(p.GetParallelism()),
		Delay:            duration(p.GetDelayNs()),
		Order:            cluster.Order(p.GetOrder()),
		Monitor:          duration(p.GetMonitorNs()),
		OnFailure:        cluster.OnFailure(p.GetOnFailure()),
		MaxFailureRatio:  p.GetMaxFailureRatio(),
		ProgressDeadline: duration(p.GetProgressDeadlineNs()),
	}
}

func restartSpecToProto(s cluster.RestartSpec) *setpointv1.RestartSpec {
	return &setpointv1.RestartSpec{
		Condition:  string(s.Condition),
		DelayNs:    int64(s.Delay),
		MaxDelayNs: int64(s.MaxDelay),
		Attempts:   int64(s.Attempts),
		WindowNs:   int64(s.Window),
	}
}

func restartSpecFromProto(p *setpointv1.RestartSpec) cluster.RestartSpec {
	return cluster.RestartSpec{
		Condition: cluster.RestartCondition(p.GetCondition()),
		Delay:     duration(p.GetDelayNs()),
		MaxDelay:  duration(p.GetMaxDelayNs()),
		Attempts:  int(p.GetAttempts()),
		Window:    duration(p.GetWindowNs()),
	}
}
