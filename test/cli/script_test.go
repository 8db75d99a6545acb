package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/setpointd/setpoint/core/cgroup"
)

// binary is the directory with the setpoint that the scripts run. Owner: TestMain.
var binary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "setpoint-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	const cmd = "github.com/setpointd/setpoint/cmd/"
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), cmd+"setpoint", cmd+"setpoint-shim", cmd+"setpoint-plugin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make builds them
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build setpoint: %v\n%s", err, out)
		return 1
	}
	binary = dir
	return m.Run()
}

// memoryEnforced reports whether processes can be held to limits of memory here.
func memoryEnforced() (bool, error) {
	tree, err := cgroup.Find("")
	if err != nil {
		return false, err
	}
	g, lacks, none := tree.Make(fmt.Sprintf("setpoint-test-%d", os.Getpid()), cgroup.Limits{Memory: 1 << 24})
	return none == nil && len(lacks) == 0, g.Remove()
}

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../examples/jobs")
	if err != nil {
		t.Fatal(err)
	}
	plugins, err := filepath.Abs("../../examples/plugins")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Condition: func(name string) (bool, error) {
			switch name {
			case "memory-enforced":
				return memoryEnforced()
			case "python-grpc":
				return exec.Command("/usr/bin/python3", "-c", "import grpc, google.protobuf").Run() == nil, nil
			case "docker":
				return os.Getenv(engineEnv) != "", nil
			}
			return false, fmt.Errorf("condition %q is unknown", name)
		},
		Setup: func(env *testscript.Env) error {
			c := &world{dir: filepath.Join(env.WorkDir, "d")}
			env.Values[worldKey{}] = c
			env.Setenv("PATH", binary+string(os.PathListSeparator)+os.Getenv("PATH"))
			env.Setenv("SETPOINT_DATA_DIR", c.dir)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("PLUGINS", plugins)
			env.Setenv("TMPDIR", os.TempDir())
			env.Setenv(engineEnv, os.Getenv(engineEnv))
			env.Setenv("DOCKER_HOST", os.Getenv(engineEnv))
			env.Defer(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				if err := c.end(ctx); err != nil {
					t.Error(err)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"dev": cmdDev, "exits": cmdExits, "eventually": cmdEventually, "signal": cmdSignal, "agent": cmdAgent, "tasks": cmdTasks, "background": cmdBackground, "image": cmdImage, "ordered": cmdOrdered, "save": cmdSave, "terminal": cmdTerminal, "page": cmdPage, "plays": cmdPlays, "login": cmdLogin, "sign": cmdSign, "collector": cmdCollector,
		},
	})
}
