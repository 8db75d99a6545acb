package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/core/compose"
	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/core/jobfile"
)

// parsedFile is a job file that was read.
type parsedFile = jobfile.File

// fileFlags are what a command that reads a job file can be told about it.
type fileFlags struct {
	vars     []string
	varFiles []string
	stack    string
	profiles []string
	accept   []string // keys of a Compose file whose loss is accepted; everyLoss: all
}

// everyLoss is the word for all losses.
const everyLoss = "all"

func (f *fileFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.vars, "var", nil, "a `NAME=VALUE` for a variable of the file; may be repeated")
	flags.StringArrayVar(&f.varFiles, "var-file", nil, "a `file` of values for variables, HCL or JSON; may be repeated")
	flags.StringVar(&f.stack, "name", "", "the `name` that begins those of a Compose file's jobs and volumes (default: the file's own, if it has one)")
	flags.StringSliceVar(&f.profiles, "profile", nil, "a `profile` of a Compose file that is active, * for all; may be repeated")
}

func (f *fileFlags) addAccept(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.accept, "accept-losses", nil, "go on without what a Compose file says and jobs do not: without all of it, or with =`KEY,…` without that")
	cmd.Flags().Lookup("accept-losses").NoOptDefVal = everyLoss
}

func (f *fileFlags) accepts(l compose.Loss) bool {
	return l.Hint || slices.ContainsFunc(f.accept, func(key string) bool { return key == everyLoss || l.Within(key) })
}

// source is a file with jobs as it was read, with all that is wrong with it.
type source struct {
	path, name string
	file       *parsedFile
	compose    *compose.File // nil: a job file of our own
	diags      hcltext.Diagnostics
	refused    []compose.Loss // that nobody accepted
}

// losses are what a Compose file says and the jobs do not.
func (s *source) losses() []compose.Loss {
	if s.compose == nil {
		return nil
	}
	return s.compose.Losses
}

// readSource reads a job file or a Compose file. The error is of what could not be read at all.
func (a *app) readSource(ctx context.Context, path string, f fileFlags) (*source, error) {
	src, name, err := a.readFile(path)
	if err != nil {
		return nil, err
	}
	out := &source{path: path, name: name}
	dir := "."
	if path != "-" {
		dir = filepath.Dir(path)
	}
	if compose.IsCompose(name, src) {
		return out, a.readCompose(ctx, out, src, dir, f)
	}
	opts, err := a.jobOptions(dir, f)
	if err != nil {
		return nil, err
	}
	out.file, out.diags = jobfile.Read(name, src, opts)
	return out, nil
}

func (a *app) readCompose(ctx context.Context, out *source, src []byte, dir string, f fileFlags) error {
	if len(f.varFiles) > 0 {
		return refuse("Put them into a file .env beside the Compose file, into the environment, or give them with --var.", "--var-file is for job files; %s is a Compose file", out.name)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	env := a.environment()
	for _, text := range f.vars {
		name, value, err := assignment(text)
		if err != nil {
			return err
		}
		env[name] = value
	}
	out.compose, out.diags = compose.Read(ctx, out.name, src, compose.Options{Stack: f.stack, Dir: dir, Env: env, Profiles: f.profiles})
	out.file = out.compose.File
	out.refused = slices.DeleteFunc(slices.Clone(out.compose.Losses), f.accepts)
	return nil
}

// jobOptions collects what a job file is given.
func (a *app) jobOptions(dir string, f fileFlags) (jobfile.Options, error) {
	opts := jobfile.Options{Env: a.environment(), ReadFile: filesBelow(dir)}
	if f.stack != "" || len(f.profiles) > 0 {
		return opts, refuse("A job file names its jobs itself.", "--name and --profile are for Compose files")
	}
	for _, text := range f.vars {
		name, value, err := assignment(text)
		if err != nil {
			return opts, err
		}
		opts.Variables = append(opts.Variables, jobfile.Given{Name: name, Text: value, From: "--var " + name})
	}
	for _, path := range f.varFiles {
		src, name, err := a.readFile(path)
		if err != nil {
			return opts, err
		}
		opts.VariableFiles = append(opts.VariableFiles, jobfile.VariableFile{Name: name, Src: src})
	}
	return opts, nil
}

func assignment(text string) (name, value string, err error) {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" {
		return "", "", refuse("Give it as --var NAME=VALUE.", "--var %q gives no value to anything", text)
	}
	return name, value, nil
}

func (a *app) environment() map[string]string {
	out := make(map[string]string)
	if a.environ == nil {
		return out
	}
	for _, each := range a.environ() {
		name, value, _ := strings.Cut(each, "=")
		out[name] = value
	}
	return out
}

// filesBelow reads files at or below a directory, and nothing that a link leads out of it.
func filesBelow(dir string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer func() { _ = root.Close() }() // it was only read
		f, err := root.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%w; the path is relative to the directory of the job file, and must not lead out of it", err)
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, hcltext.MaxFileSize+1))
	}
}

func (a *app) readFile(path string) (src []byte, name string, err error) {
	if path == "-" {
		src, err = io.ReadAll(a.in)
		return src, "stdin", err
	}
	src, err = os.ReadFile(path)
	if err != nil {
		return nil, "", refuse("Give the path of a file that can be read, or - for standard input.", "%v", err)
	}
	return src, path, nil
}

func (a *app) look() hcltext.Look { return hcltext.Look{Color: a.style(a.errOut).Color} }

// readJobs reads a job file or a Compose file. Mistakes are written with their lines, all at once: where there are some, a server that can be reached is asked
// for those that only its plugins see. So is what a Compose file says and the jobs do not; without being accepted it is refused.
func (a *app) readJobs(ctx context.Context, path string, f fileFlags) (*parsedFile, error) {
	s, err := a.readSource(ctx, path, f)
	if err != nil {
		return nil, err
	}
	if s.diags.HasErrors() {
		a.askAboutMistakes(ctx, s)
	}
	if err := a.tell(s); err != nil {
		return nil, err
	}
	return s.file, nil
}

// askAboutMistakes adds what a server finds wrong with a file that has mistakes anyhow.
func (a *app) askAboutMistakes(ctx context.Context, s *source) {
	for i, problems := range a.pluginMistakes(ctx, s.file) {
		s.diags = append(s.diags, s.file.Jobs[i].Diagnose(problems)...)
	}
	hcltext.Sort(s.diags)
}

// tell writes what is wrong with a file and what of it is lost, and refuses it if that is so.
func (a *app) tell(s *source) error {
	a.printLosses(s)
	if len(s.diags) > 0 {
		if err := s.file.Write(a.errOut, s.diags, a.look()); err != nil {
			return err
		}
	}
	switch {
	case s.diags.HasErrors():
		fmt.Fprintf(a.errOut, "Error: %s has mistakes; nothing was done. `setpoint job validate %s` checks it again.\n", s.name, s.path)
	case len(s.refused) > 0:
		fmt.Fprintf(a.errOut, "Error: %s says things that jobs do not, without which what runs would behave otherwise; nothing was done.\n", s.name)
		fmt.Fprintf(a.errOut, "  Change the file, or go on without them: --accept-losses, or some of them: --accept-losses=%s\n", strings.Join(lostKeys(s.refused), ","))
	default:
		return nil
	}
	return errShown(exitRefused)
}

func lostKeys(losses []compose.Loss) []string {
	var keys []string
	for _, l := range losses {
		keys = append(keys, l.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// printLosses writes what is lost, with what is the same of several services together.
func (a *app) printLosses(s *source) {
	style := a.style(a.errOut)
	done := make(map[string]bool)
	losses := s.losses()
	for i, l := range losses {
		same := l.Key + l.Why
		if done[same] {
			continue
		}
		done[same] = true
		var also []string
		for _, other := range losses[i+1:] {
			if other.Key+other.Why == same {
				also = append(also, strings.TrimSpace(fmt.Sprintf("%s line %d", other.Service, other.At.Start.Line)))
			}
		}
		text := l.String()
		if also != nil {
			text += " (also " + strings.Join(also, ", ") + ")"
		}
		word := "Note:     "
		if !l.Hint {
			word = style.Red("Not kept: ")
		}
		fmt.Fprintln(a.errOut, word+text)
	}
}
