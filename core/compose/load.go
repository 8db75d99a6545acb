package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/interpolation"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/hashicorp/hcl/v2"
	"github.com/sirupsen/logrus"
	"go.yaml.in/yaml/v4"

	"github.com/setpointd/setpoint/core/hcltext"
)

// unnamed is the project's name for compose-go, which wants one, where neither the file nor the caller says one.
const unnamed = "setpoint-unnamed"

// loaded is what compose-go made of a file.
type loaded struct {
	project *types.Project
	model   map[string]any // the same as maps and lists, in which nothing is left out
	stack   string         // "" without a name
}

// load has compose-go read the file. A mistake that it finds is told with its place, and with others of its kind.
func (r *reader) load(ctx context.Context) (*loaded, hcl.Diagnostics) {
	logrus.SetOutput(io.Discard) // compose-go speaks through a logger of the whole process; what it has to say, diagnostics say here
	details := types.ConfigDetails{
		WorkingDir: r.dir, Environment: types.Mapping(maps.Clone(r.env)),
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(r.dir, filepath.Base(r.doc.name)), Content: r.doc.src}},
	}
	var opts *loader.Options
	out, err := guarded(func() (*loaded, error) {
		model, err := loader.LoadModelWithContext(ctx, details, func(o *loader.Options) {
			opts = o
			o.SkipNormalization = true // it adds what nobody wrote
			o.Interpolate.Substitute = substitute
			o.Profiles = r.opts.Profiles
			o.SetProjectName(unnamed, false)
			if r.opts.Stack != "" {
				o.SetProjectName(r.opts.Stack, true)
			}
		})
		if err != nil {
			return nil, err
		}
		whole := copyOf(model).(map[string]any)
		opts.SkipConsistencyCheck = true // what it finds is found here, with its place
		project, err := loader.ModelToProject(model, opts, details)
		if err != nil {
			return nil, err
		}
		return &loaded{project: project, model: whole, stack: project.Name}, nil
	})
	if err != nil {
		return nil, r.explain(err)
	}
	if out.stack == unnamed {
		out.stack = ""
	}
	return out, nil
}

// guarded has compose-go do something, in which it takes the shape of what it reads for granted here and there.
func guarded[T any](do func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("something has the wrong shape: %v", p)
		}
	}()
	return do()
}

func substitute(text string, mapping template.Mapping) (string, error) {
	return template.SubstituteWithOptions(text, mapping, template.WithoutLogging)
}

func copyOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, each := range v {
			out[k] = copyOf(each)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, each := range v {
			out[i] = copyOf(each)
		}
		return out
	}
	return v
}

// environment is what the file's variables stand for: a .env beside the file, and over it what the caller gives.
func (r *reader) environment() hcl.Diagnostics {
	r.env = make(map[string]string)
	path := filepath.Join(r.dir, ".env")
	src, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return hcl.Diagnostics{hcltext.Error(r.doc.line(1), "File of variables cannot be read", sentence(err.Error()))}
	default:
		values, err := dotenv.ParseWithLookup(strings.NewReader(string(src)), func(name string) (string, bool) {
			v, ok := r.opts.Env[name]
			return v, ok
		})
		if err != nil {
			return hcl.Diagnostics{hcltext.Error(r.doc.line(1), "File of variables cannot be read", fmt.Sprintf("In %s: %s", path, sentence(err.Error())))}
		}
		maps.Copy(r.env, values)
	}
	maps.Copy(r.env, r.opts.Env)
	return nil
}

// plainVariable is a variable without a default, or an escaped dollar, which is none.
var plainVariable = regexp.MustCompile(`\$\$|\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// unset tells of variables that have neither a value nor a default, which stand for nothing.
func (r *reader) unset(n *yaml.Node, seen map[string]bool) {
	if n == nil || n.Kind == yaml.AliasNode {
		return
	}
	for _, each := range n.Content {
		r.unset(each, seen)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	for _, m := range plainVariable.FindAllStringSubmatch(n.Value, -1) {
		name := m[1] + m[2]
		if _, set := r.env[name]; set || name == "" || seen[name] {
			continue
		}
		seen[name] = true
		r.losses = append(r.losses, Loss{
			At: r.doc.span(n), Key: "variables", Hint: true,
			Why: fmt.Sprintf("the variable %s has no value, neither in the environment nor in .env, and stands for nothing", name),
		})
	}
}

// explain says what compose-go found wrong. It stops at the first mistake; where that is about the file's shape, the schema says all of them.
func (r *reader) explain(err error) hcl.Diagnostics {
	out := r.shape()
	if len(out) > 0 && !strings.Contains(err.Error(), "interpolat") {
		return out
	}
	for _, text := range strings.Split(err.Error(), "\n") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		text = strings.TrimPrefix(text, "validating "+filepath.Join(r.dir, filepath.Base(r.doc.name))+": ")
		at, known := r.mentioned(text)
		if rest, ok := strings.CutPrefix(text, "error while interpolating "); ok {
			text = "in " + rest
		}
		text = strings.Replace(text, "failed to cast to expected type: ", "", 1)
		if !known && len(out) > 0 { // goes on about the one before
			out[len(out)-1].Detail += " " + sentence(text)
			continue
		}
		out = append(out, hcltext.Error(at, "Not a Compose file that can be read", sentence(text)))
	}
	return out
}

var (
	// modelPath is a place in the model as compose-go writes it.
	modelPath = regexp.MustCompile(`(?:services|networks|volumes|secrets|configs|include)(?:\.[\w\-\[\]*]+)+`)
	// named is a service as compose-go writes it.
	named = regexp.MustCompile(`[Ss]ervice "?([\w.\-]+)"?`)
)

// mentioned finds the place that a message speaks of.
func (r *reader) mentioned(text string) (hcl.Range, bool) {
	if found := modelPath.FindString(text); found != "" {
		return r.places.of(strings.Split(strings.ReplaceAll(found, "[]", "0"), ".")...), true
	}
	if m := named.FindStringSubmatch(text); m != nil {
		if at, _, found := r.doc.find([]string{"services", m[1]}); found == 2 {
			return at, true
		}
	}
	if n := r.path(r.doc.root, text); n != nil {
		return r.doc.span(n), true
	}
	return r.doc.line(1), false
}

// path finds what names a file that a message speaks of.
func (r *reader) path(n *yaml.Node, text string) *yaml.Node {
	for _, each := range n.Content {
		if found := r.path(each, text); found != nil {
			return found
		}
	}
	if n.Kind != yaml.ScalarNode || !strings.ContainsAny(n.Value, "./") || strings.Contains(n.Value, "\n") {
		return nil
	}
	file := n.Value
	if !filepath.IsAbs(file) {
		file = filepath.Join(r.dir, file)
	}
	if strings.Contains(text, file) {
		return n
	}
	return nil
}

// interpolated is the file's own content with its variables replaced, or as it stands if that cannot be done.
func (r *reader) interpolated() (map[string]any, error) {
	var raw map[string]any
	if err := r.doc.root.Decode(&raw); err != nil {
		return nil, err
	}
	details := types.ConfigDetails{Environment: r.env}
	opts := loader.ToOptions(&details, nil)
	opts.Interpolate.Substitute = substitute
	if content, err := interpolation.Interpolate(raw, *opts.Interpolate); err == nil {
		return content, nil
	}
	return raw, nil
}

// sortedKeys are a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
