package sdktest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// playEnv has the test's own program be a plugin.
const playEnv = "SDKTEST_PLAY"

func TestMain(m *testing.M) {
	switch os.Getenv(playEnv) {
	case "sound":
		sdk.Serve(filter(needs{}))
		return
	case "dies":
		sdk.Serve(matching(func(n *cluster.Node, label string) error {
			if n.Spec.Labels["zone"] == " " {
				os.Exit(3)
			}
			return hasLabel(n, label)
		}))
		return
	}
	goleak.VerifyTestMain(m)
}

func self(t *testing.T, play string) sdktest.Program {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return sdktest.Program{Path: path, Env: []string{playEnv + "=" + play}}
}

func TestProgramConforms(t *testing.T) { sdktest.ConformanceOf(t, self(t, "sound"), cases()) }

// TestProgramThatDies has a program end at the sight of an odd node, which is found out and told with what the node is.
func TestProgramThatDies(t *testing.T) {
	findsOnly(t, self(t, "dies"), cases(), sdktest.RulePanic, "the plugin has ended")
}

func TestProgramThatIsNoPlugin(t *testing.T) {
	if _, err := sdktest.Check(t.Context(), sdktest.Program{Path: "/bin/true"}, cases()); err == nil {
		t.Error("a program that is no plugin is taken for one")
	}
}
