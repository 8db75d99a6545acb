package sdktest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// playEnv has the test's own program be a plugin.
const playEnv = "SDKTEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(playEnv) != "" {
		sdk.Serve(filter(needs{}))
		return
	}
	goleak.VerifyTestMain(m)
}

func self(t *testing.T) sdktest.Program {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return sdktest.Program{Path: path, Env: []string{playEnv + "=1"}}
}

func TestProgramConforms(t *testing.T) { sdktest.ConformanceOf(t, self(t), cases()) }

func TestProgramThatIsNoPlugin(t *testing.T) {
	if _, err := sdktest.Check(t.Context(), sdktest.Program{Path: "/bin/true"}, cases()); err == nil {
		t.Error("a program that is no plugin is taken for one")
	}
}
