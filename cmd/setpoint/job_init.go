package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// beginnings has a first job file for each driver, DRIVER.hcl, of a job called NAME.
//
//go:embed beginnings/*.hcl
var beginnings embed.FS

func (a *app) jobInit() *cobra.Command {
	driver, path := "", ""
	cmd := &cobra.Command{
		Use: "init [NAME]", Short: "Begin a job file, with comments about what can stand in it", Args: takes(0, 1),
		Example: "  setpoint job init web >web.hcl",
		Long:    `Writes a job file NAME.hcl to begin with, which runs as it is and has comments about what else can stand in it. NAME is "example" if nothing is said.`,
		RunE: func(_ *cobra.Command, args []string) error {
			name := "example"
			if len(args) > 0 {
				name = args[0]
			}
			return a.initJob(name, driver, path)
		},
	}
	cmd.Flags().StringVar(&driver, "driver", cluster.DefaultDriver, "what runs the tasks: `process`, docker or sim")
	cmd.Flags().StringVar(&path, "out", "", "the `file` to write, - for standard output (default NAME.hcl)")
	return cmd
}

func (a *app) initJob(name, driver, path string) error {
	if err := cluster.ValidateName(name); err != nil {
		return refuse("A job's name is lower-case letters, digits and hyphens.", "%q cannot be the name of a job: %v", name, err)
	}
	text, err := beginning(name, driver)
	if err != nil {
		return err
	}
	if path == "-" {
		fmt.Fprint(a.out, text)
		return nil
	}
	if path == "" {
		path = name + ".hcl"
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return refuse("Give another name, or --out another file.", "%s is there already", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s: `setpoint job plan %s` shows what it would do, `setpoint job run %s` does it\n", path, path, path)
	return nil
}

// beginning is the file to begin with for a driver.
func beginning(name, driver string) (string, error) {
	known := []string{cluster.DriverProcess, cluster.DriverDocker, cluster.DriverSim}
	text, err := beginnings.ReadFile("beginnings/" + driver + ".hcl")
	if err != nil || strings.ContainsAny(driver, "/.") {
		hint := "Use " + cluster.Choice(known) + "."
		if near := cluster.Suggest(driver, known); near != "" {
			hint = fmt.Sprintf("Did you mean %q?", near)
		}
		return "", refuse(hint, "there is no driver %q", driver)
	}
	return strings.ReplaceAll(string(text), `"NAME"`, fmt.Sprintf("%q", name)), nil
}
