package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/scaffold"
)

// newPlugin is what `plugin new` was asked for.
type newPlugin struct {
	kinds       map[string]*bool // by kind
	lang        string
	dir, module string
	sdk         string
}

func (a *app) pluginNew() *cobra.Command {
	n := newPlugin{kinds: map[string]*bool{}}
	cmd := &cobra.Command{
		Use: "new NAME --filter|--drainer|--job-type", Short: "Begin a plugin of your own", Args: takes(1, 1),
		Example: "  setpoint plugin new gpu --filter",
		Long: `Begins a plugin: a folder NAME of its own, in Go a module, which builds, has tests, and does something small that you replace by what you want. A filter
says on which nodes a task may run, a drainer how a node is emptied, a job type which slots a job should have. docs/PLUGINS.md leads on from there.`,
		RunE: func(_ *cobra.Command, args []string) error { return a.writePlugin(n, args[0]) },
	}
	flags := cmd.Flags()
	for kind, about := range map[string]string{
		scaffold.Filter: "a plugin that says on which nodes a task may run", scaffold.Drainer: "a plugin that says how a node is emptied",
		scaffold.JobType: "a plugin that says which slots a job should have",
	} {
		n.kinds[kind] = flags.Bool(kind, false, about)
	}
	flags.StringVar(&n.lang, "lang", scaffold.Go, "the `language`: go or python")
	flags.StringVar(&n.dir, "dir", "", "the `folder` to write into (default: NAME)")
	flags.StringVar(&n.module, "module", "", "the `path` of the Go module (default: example.com/NAME)")
	flags.StringVar(&n.sdk, "sdk", "", "a `folder` with Setpoint's source, whose SDK is used instead of a published one (default for a binary that was built there)")
	return cmd
}

// writePlugin writes the plugin and says what to do next.
func (a *app) writePlugin(n newPlugin, name string) error {
	spec, err := n.spec(name)
	if err != nil {
		return err
	}
	dir := n.dir
	if dir == "" {
		dir = name
	}
	files, err := scaffold.Write(dir, spec)
	if errors.Is(err, scaffold.ErrNotEmpty) {
		return refuse("Another name, or --dir, leads elsewhere; nothing is written over.", "%v", err)
	} else if errors.Is(err, scaffold.ErrNoTemplate) {
		return refuse("docs/PLUGINS.md says what a plugin in any language must do.", "%v", err)
	} else if err != nil {
		return fmt.Errorf("begin plugin %s: %w", name, err)
	}
	return a.print(map[string]any{"name": name, "kind": spec.Kind, "dir": dir, "module": spec.Module, "files": files}, func(w io.Writer, _ console.Style) {
		fmt.Fprintf(w, "%s has a %s: %s\n\n%s", dir, strings.ReplaceAll(spec.Kind, "-", " "), strings.Join(files, " "), nextSteps(dir, spec))
	})
}

// nextSteps says how one comes from a plugin's source to seeing it work.
func nextSteps(dir string, s scaffold.Spec) string {
	file, makes := "plugin.go", "fetch what it needs, build ./"+s.Name+", run its tests"
	if s.Lang == scaffold.Python {
		file, makes = "plugin.py", "run its tests"
	}
	return fmt.Sprintf(`What it does is in %[2]s. Next:

  cd %[1]s
  make                              # %[3]s
  make check                        # all that servers rely on: setpoint plugin check ./%[4]s

  setpoint dev --config config.hcl  # a cluster that has it; then, in another terminal:
  setpoint plugin ls
  setpoint job run job.hcl
  setpoint stalls

A server's own configuration takes the block in config.hcl, with the program's whole path.
`, dir, file, makes, s.Program())
}

// spec checks what was asked for.
func (n newPlugin) spec(name string) (scaffold.Spec, error) {
	s := scaffold.Spec{Name: name, Module: n.module}
	if err := scaffold.CheckName(name); err != nil {
		return s, refuse("It is of lower-case letters, digits and hyphens, such as gpu or rack-aware.", "bad name: %v", err)
	}
	for kind, wanted := range n.kinds {
		if *wanted && s.Kind != "" {
			return s, refuse("Say one of them. A plugin can serve several; add the others to what was begun.", "--%s and --%s", min(kind, s.Kind), max(kind, s.Kind))
		}
		if *wanted {
			s.Kind = kind
		}
	}
	if s.Kind == "" {
		return s, refuse("Say --filter, --drainer or --job-type.", "what should the plugin do?")
	}
	switch s.Lang = n.lang; {
	case n.lang == scaffold.Python:
		return s, nil
	case n.lang != scaffold.Go:
		return s, refuse("There are templates for go and python. docs/PLUGINS.md says what a plugin in any language must do.", "no templates for --lang %s", n.lang)
	}
	if s.Module == "" {
		s.Module = "example.com/" + name
	}
	return s, n.findSDK(&s)
}

// release matches a version that was published.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// findSDK says which SDK the plugin is built with: a given one, that of this binary's release, or the source that this binary was built from.
func (n newPlugin) findSDK(s *scaffold.Spec) error {
	dir := n.sdk
	if dir == "" && release.MatchString(version) {
		s.SDKVersion = version
		return nil
	}
	if dir == "" {
		dir = sourceDir()
	}
	if dir == "" {
		return refuse("Say --sdk DIR, the folder with Setpoint's source.", "this setpoint is version %s, of which there is no published SDK, and its source is gone", version)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if !isSource(dir) {
		return refuse("It is the folder that has Setpoint's go.mod.", "--sdk %s is not Setpoint's source", dir)
	}
	s.SDKDir = dir
	return nil
}

// sourceDir returns the folder with the source that this binary was built from, or "" if it is not there.
func sourceDir() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	if dir := filepath.Dir(filepath.Dir(filepath.Dir(file))); isSource(dir) {
		return dir
	}
	return ""
}

func isSource(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.HasPrefix(string(text), "module "+scaffold.SDKModule+"\n")
}
