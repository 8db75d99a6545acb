package cli

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// engineEnv is the variable with the address of a Docker engine that scripts may use as they like.
const engineEnv = "SETPOINT_TEST_DOCKER"

// cmdImage gives the engine an image of that name, which has one program, /task, that does what its arguments say (agent/driver/docker/testdata/task), and runs
// it with the given ones if a container says no other command.
//
//	image NAME COMMAND
func cmdImage(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: image NAME COMMAND")
	}
	program := filepath.Join(worldOf(ts).dir, "..", "task")
	build := exec.Command("go", "build", "-o", program, "../../agent/driver/docker/testdata/task")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("build the program of the image: %v\n%s", err, out)
	}
	data, err := os.ReadFile(program)
	ts.Check(err)
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	ts.Check(w.WriteHeader(&tar.Header{Name: "task", Mode: 0o755, Size: int64(len(data))}))
	_, err = w.Write(data)
	ts.Check(err)
	ts.Check(w.Close())
	load := exec.Command("docker", "--host", os.Getenv(engineEnv), "import", "--change", args[1], "-", args[0])
	load.Stdin = &files
	if out, err := load.CombinedOutput(); err != nil {
		ts.Fatalf("import the image: %v\n%s", err, out)
	}
}
