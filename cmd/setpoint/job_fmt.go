package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/core/jobfile"
)

// formatting is how files are formatted.
type formatting struct {
	check     bool // change nothing, and fail if something would be changed
	diff      bool // show what is changed
	recursive bool
}

func (a *app) jobFmt() *cobra.Command {
	var f formatting
	cmd := &cobra.Command{
		Use: "fmt [FILE|DIRECTORY|-]…", Short: "Give job files their usual spacing", Args: takes(0, -1),
		Example: "  setpoint job fmt jobs/",
		Long: `Gives files in HCL their usual spacing, in place, and prints the names of those that it changed. Of a directory these are its *.hcl, with --recursive also those
of the directories in it; without an argument the current directory is meant. - formats standard input to standard output.

With --check nothing is changed; the exit code is 2 if something would be.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			return a.format(args, f)
		},
	}
	cmd.Flags().BoolVar(&f.check, "check", false, "change nothing; exit code 2 if something would be changed")
	cmd.Flags().BoolVar(&f.diff, "diff", false, "show what is changed")
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "go into directories within directories")
	return cmd
}

func (a *app) format(args []string, f formatting) error {
	var found error
	for _, arg := range args {
		paths, err := filesToFormat(arg, f.recursive)
		if err != nil {
			return err
		}
		for _, path := range paths {
			err := a.formatFile(path, f)
			var shown errShown
			if err != nil && !errors.As(err, &shown) {
				return err
			}
			if err != nil {
				found = err
			}
		}
	}
	return found
}

// filesToFormat are a file itself, and of a directory its files in HCL.
func filesToFormat(arg string, recursive bool) ([]string, error) {
	if arg == "-" {
		return []string{arg}, nil
	}
	info, err := os.Stat(arg)
	if err != nil {
		return nil, refuse("Give files, directories, or - for standard input.", "%v", err)
	}
	if !info.IsDir() {
		return []string{arg}, nil
	}
	var out []string
	err = filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != arg && (!recursive || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".hcl":
			out = append(out, path)
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

// formatFile formats one file. The error is shown already if it is about what stands in the file.
func (a *app) formatFile(path string, f formatting) error {
	src, name, err := a.readFile(path)
	if err != nil {
		return err
	}
	out, file, diags := jobfile.FormatSource(name, src)
	if diags.HasErrors() {
		if err := file.Write(a.errOut, diags, a.look()); err != nil {
			return err
		}
		return errShown(exitRefused)
	}
	same := bytes.Equal(src, out)
	if path == "-" && !f.check && !f.diff {
		_, err := a.out.Write(out)
		return err
	}
	if same {
		return nil
	}
	fmt.Fprintln(a.out, name)
	if f.diff {
		if _, err := a.out.Write(diff.Diff(name, src, name+" (formatted)", out)); err != nil {
			return err
		}
	}
	switch {
	case f.check:
		return errShown(exitRefused)
	case path == "-":
		return nil
	}
	return replaceFile(path, out)
}

// replaceFile gives a file another content, all of it or nothing. A link stays one.
func replaceFile(path string, content []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".setpoint-fmt-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // which is gone if it took the file's place
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(info.Mode().Perm()), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
