package main

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
)

func (a *app) pluginDescribe() *cobra.Command {
	var env []string
	cmd := &cobra.Command{
		Use: "describe PATH [ARGS...]", Short: "Print what a plugin's program says it is, as JSON", Args: takes(1, -1),
		Example: "  setpoint plugin describe ./bin/gpu",
		Long: `Starts the program as a server would, without a cluster, and prints its name, version, protocol, interfaces, job types, the node fields that it
watches, and the schemas of its configuration and of what jobs say to it. A plugin made with the Go SDK prints the same when it is started with the
argument "describe".`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			program, err := openProgram(args[0], args[1:], env, hclog.NewNullLogger())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, program.Close()) }()
			about, err := program.describe(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Format(about))
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringArrayVar(&env, "env", nil, "a `KEY=value` for its environment, which is otherwise almost empty; may be repeated")
	return cmd
}
