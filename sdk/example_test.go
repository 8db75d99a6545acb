package sdk_test

import (
	"context"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// gpuSettings is what a job says in its plugin "gpu" block.
type gpuSettings struct {
	Model string `setpoint:"model,required" desc:"The model that the job needs, such as a100."`
}

type gpuFilter struct{}

// Compile makes a matcher of the model that a job asks for.
func (gpuFilter) Compile(_ context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if req.Settings == "" {
		return nil, nil // the job does not speak of GPUs
	}
	var s gpuSettings
	if err := req.Settings.Decode(&s); err != nil {
		return nil, err
	}
	return gpuMatcher{model: s.Model, missing: &sdk.Stall{Code: "no_gpu", Detail: s.Model, Clears: "a node with a " + s.Model + " joins"}}, nil
}

type gpuMatcher struct {
	model   string
	missing *sdk.Stall
}

// Match refuses nodes without the model.
func (m gpuMatcher) Match(n *cluster.Node) error {
	if n.Description.Attributes["gpu"] != m.model {
		return m.missing
	}
	return nil
}

// A whole plugin: jobs that ask for a GPU model run only on nodes that have it.
func Example() {
	sdk.Serve(sdk.Plugin{
		Name:    "gpu",
		Version: "1.0.0",
		Filter:  gpuFilter{},
		Job:     sdk.SchemaOf[gpuSettings](),
		Watches: []sdk.Watch{sdk.WatchAttributes},
	})
}
