// Package scaffold writes the beginning of a plugin: a folder of its own with the code, its tests, a README, and the configuration and the job to try it with. In
// Go it is a module. The templates are what authors read first, so they are short and show one idea each.
//
// It may import the standard library, sdk/cluster, and the library for Python from the examples, which it copies.
package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/setpointd/setpoint/examples/plugins/python"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// The languages that there are templates for.
const (
	Go     = "go"
	Python = "python"
)

// SDKModule is the module that the SDK is part of.
const SDKModule = "github.com/setpointd/setpoint"

// goVersion is what the SDK needs at least.
const goVersion = "1.26.0"

// The kinds of plugin that there are templates for.
const (
	Filter  = "filter"
	Drainer = "drainer"
	JobType = "job-type"
)

// Spec says what plugin is begun.
type Spec struct {
	Name string
	Kind string // Filter, Drainer or JobType
	Lang string // Go, also if empty, or Python

	// Of a plugin in Go.
	Module     string // path of the Go module; "": example.com/NAME
	SDKVersion string // of the module of the SDK, such as v0.1.0; "" with SDKDir
	SDKDir     string // absolute path of a checkout whose SDK is used; "": the published one
}

var (
	// ErrNotEmpty: there is something in the folder already.
	ErrNotEmpty = errors.New("the folder is not empty")
	// ErrNoTemplate: there is none for that kind of plugin in that language.
	ErrNoTemplate = errors.New("there is no template")
)

//go:embed templates
var templates embed.FS

// places are the files whose template has another name.
var places = map[string]string{"gitignore": ".gitignore"}

// checkWith are settings of jobs that tell nodes apart, by the kind of plugin.
var checkWith = map[string][]string{
	Filter: {`{"value":"gold"}`, `{"value":"iron"}`}, Drainer: {`{"wait":"1m"}`}, JobType: {`{"each":1}`, `{"each":2}`},
}

// Program returns the name of the file that is the plugin's program once it is built.
func (s Spec) Program() string {
	if s.Lang == Python {
		return "plugin.py"
	}
	return s.Name
}

var pluginName = regexp.MustCompile(`^[a-z]`)

// CheckName returns why a plugin cannot have a name, or nil.
func CheckName(name string) error {
	if err := cluster.ValidateName(name); err != nil {
		return err
	}
	if !pluginName.MatchString(name) {
		return fmt.Errorf("%q must begin with a letter", name)
	}
	if slices.Contains([]string{"constraint", "drain", "global"}, name) {
		return fmt.Errorf("%q is the name of a plugin that comes along", name)
	}
	if slices.Contains([]string{cluster.TypeReplicated, cluster.TypeBatch, cluster.TypeGlobalBatch}, name) {
		return fmt.Errorf("%q is the name of a job type that comes along", name)
	}
	return nil
}

// Write writes a plugin into a folder, which is made unless it is there and empty, and returns the files' paths in it, sorted. Nothing is written if anything
// of the Spec is wrong; ErrNotEmpty is for a folder with something in it.
func Write(dir string, s Spec) ([]string, error) {
	files, err := s.render()
	if err != nil {
		return nil, err
	}
	found, err := os.ReadDir(dir)
	switch {
	case err == nil && len(found) > 0:
		return nil, fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	for name, content := range files {
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(content, []byte("#!")) {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, mode); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// render returns the content of all files by name.
func (s Spec) render() (map[string][]byte, error) {
	if err := CheckName(s.Name); err != nil {
		return nil, err
	}
	if s.Module == "" {
		s.Module = "example.com/" + s.Name
	}
	if s.SDKVersion == "" {
		s.SDKVersion = "v0.0.0"
	}
	out := map[string][]byte{}
	if s.Lang == Python {
		if err := copyFiles(python.Library, ".", out); err != nil {
			return nil, err
		}
	}
	lang := cmp.Or(s.Lang, Go)
	if err := s.fillIn(lang+"-common", out); err != nil {
		return nil, err
	}
	if err := s.fillIn(lang+"-"+s.Kind, out); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w for a %s in %s", ErrNoTemplate, s.Kind, lang)
	} else if err != nil {
		return nil, err
	}
	return out, nil
}

func copyFiles(from embed.FS, dir string, out map[string][]byte) error {
	entries, err := from.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if out[e.Name()], err = from.ReadFile(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// fillIn adds what comes of the templates in a directory.
func (s Spec) fillIn(dir string, out map[string][]byte) error {
	entries, err := templates.ReadDir(path.Join("templates", dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".tmpl")
		content, err := s.file(path.Join("templates", dir, e.Name()))
		if err != nil {
			return err
		}
		if place := places[name]; place != "" {
			name = place
		}
		out[name] = content
	}
	return nil
}

func (s Spec) file(name string) ([]byte, error) {
	t, err := template.ParseFS(templates, name)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		Spec
		SDKModule, Go string
		CheckWith     []string
	}{s, SDKModule, goVersion, checkWith[s.Kind]})
	if err != nil {
		return nil, fmt.Errorf("fill in template: %w", err)
	}
	if !strings.HasSuffix(name, ".go.tmpl") {
		return b.Bytes(), nil
	}
	out, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", name, err)
	}
	return out, nil
}
