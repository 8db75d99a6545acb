package main

import (
	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/core/jobfile"
)

func (a *app) jobSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of job files in JSON, for editors", Args: takes(0, 0),
		Example: "  setpoint job schema >job.schema.json",
		RunE: func(*cobra.Command, []string) error {
			text, err := jobfile.Schema()
			if err != nil {
				return err
			}
			_, err = a.out.Write(text)
			return err
		},
	}
}
