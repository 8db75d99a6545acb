package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/core/compose"
	"github.com/setpointd/setpoint/core/jobfile"
)

func (a *app) jobConvert() *cobra.Command {
	var f fileFlags
	var dir string
	var force bool
	cmd := &cobra.Command{
		Use: "convert FILE", Short: "Write the jobs of a Compose file, or of any job file, as HCL", Args: takes(1, 1),
		Example: "  setpoint job convert compose.yml >stack.hcl",
		Long: `Writes the jobs of a Compose file (.yml, .yaml), or of a job file in JSON or with variables, as plain job files: to standard output, or with --out as a file
JOB.hcl for each in a directory. What a Compose file says and jobs do not stands in comments, at the place where it would belong.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.readSource(cmd.Context(), args[0], f)
			if err != nil {
				return err
			}
			if s.diags.HasErrors() {
				return a.tell(s)
			}
			return a.convert(s, dir, force)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&dir, "out", "", "the `directory` for the files (default: standard output)")
	cmd.Flags().BoolVar(&force, "force", false, "replace files that are there")
	return cmd
}

// convert writes each job of a file.
func (a *app) convert(s *source, dir string, force bool) error {
	var names []string
	texts := make(map[string][]byte)
	for _, job := range s.file.Jobs {
		text, err := s.format(job)
		if err != nil {
			return err
		}
		names, texts[job.Spec.Name] = append(names, job.Spec.Name), text
	}
	if dir == "" {
		for i, name := range names {
			if i > 0 {
				fmt.Fprintln(a.out)
			}
			if _, err := a.out.Write(texts[name]); err != nil {
				return err
			}
		}
	} else if err := a.writeJobs(dir, names, texts, force); err != nil {
		return err
	}
	a.countLosses(s.losses())
	return nil
}

// countLosses says how much of a Compose file stands in comments, or nowhere.
func (a *app) countLosses(losses []compose.Loss) {
	kept, above := 0, 0
	for _, l := range losses {
		if !l.Hint {
			kept++
		}
		if l.Service == "" {
			above++
			fmt.Fprintln(a.errOut, l)
		}
	}
	if n := len(losses) - above; n > 0 {
		verb := "stand"
		if n == 1 {
			verb = "stands"
		}
		fmt.Fprintf(a.errOut, "%s %s in comments, %d of them about what would behave otherwise.\n", console.Count(int64(n), "remark"), verb, min(kept, n))
	}
}

// format writes one job of a file as HCL.
func (s *source) format(job *jobfile.Job) ([]byte, error) {
	if s.compose != nil {
		return s.compose.Format(job)
	}
	return jobfile.Format(job.Spec)
}

// writeJobs writes a file for each job. None is written if one is there already and must not be replaced.
func (a *app) writeJobs(dir string, names []string, texts map[string][]byte, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name+".hcl")
		if _, err := os.Lstat(path); !force && !errors.Is(err, os.ErrNotExist) {
			return refuse("Give --out another directory, or replace it with --force.", "%s is there already; nothing was written", path)
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name+".hcl")
		if err := os.WriteFile(path, texts[name], 0o644); err != nil {
			return err
		}
		fmt.Fprintln(a.out, path)
	}
	return nil
}
