package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries are the programs that clusters run.
type Binaries struct {
	Setpoint string
	Plugin   string // test/internal/testplugin
}

// Build builds the programs from this module's source into a directory. It is called from somewhere within the module.
func Build(dir string) (Binaries, error) {
	b := Binaries{Setpoint: filepath.Join(dir, "setpoint"), Plugin: filepath.Join(dir, "testplugin")}
	for path, pkg := range map[string]string{
		b.Setpoint: "./cmd/setpoint", b.Plugin: "./test/internal/testplugin",
		filepath.Join(dir, "setpoint-shim"): "./cmd/setpoint-shim", filepath.Join(dir, "setpoint-plugin"): "./cmd/setpoint-plugin", // which setpoint looks for beside itself
	} {
		if err := buildInto(path, pkg); err != nil {
			return b, err
		}
	}
	return b, nil
}

// buildInto builds a package of this module, with more arguments for the builder.
func buildInto(path, pkg string, args ...string) error {
	root, err := run("", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	if _, err := run(strings.TrimSpace(root), "go", append(append([]string{"build"}, args...), "-o", path, pkg)...); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make builds them
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errOut.String())
	}
	return out.String(), nil
}
