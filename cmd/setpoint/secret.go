package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	"github.com/setpointd/setpoint/core/secret"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) secretCommand() *cobra.Command {
	return group("secret", "Keep passwords and keys that tasks need, and that nobody is shown", a.secretList(), named(a.secretInspect()), a.secretCreate(), a.secretRotate(), a.secretRemove(), a.secretRekey())
}

func (a *app) secretCreate() *cobra.Command {
	return a.secretPut(true, &cobra.Command{
		Use: "create NAME FILE|-", Short: "Make a secret of a file's content, or of what is piped in",
		Long: `Makes a secret of what is in a file or comes in, byte by byte: a line's end belongs to it. It has 64 KiB at most. Nobody is shown the value again, this command's maker included.

A task gets it as a file in memory: secret "NAME" {} in its task block, and the directory is in SETPOINT_SECRETS_DIR.`,
		Example: "  setpoint secret create db-password /root/db-password\n  openssl rand -base64 32 | tr -d '\\n' | setpoint secret create session-key -",
	})
}

func (a *app) secretRotate() *cobra.Command {
	return a.secretPut(false, &cobra.Command{
		Use: "rotate NAME FILE|-", Short: "Make the next version of a secret",
		Long: `Makes the next version of a secret. Nothing is restarted: each job has the version that was the newest when it was submitted, and gets the new one when it is run again, by
the pace of its update. A rollback of a job gives it back the version that it had. Of older versions ten are kept, and all that jobs use.`,
		Example: "  setpoint secret rotate db-password /root/db-password && setpoint job run web.hcl",
	})
}

// secretPut makes a command that sends a value.
func (a *app) secretPut(create bool, cmd *cobra.Command) *cobra.Command {
	cmd.Args = takes(2, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		value, err := a.readSecret(args[1])
		if err != nil {
			return err
		}
		s, err := a.connect()
		if err != nil {
			return err
		}
		res, err := ask(cmd.Context(), s, s.PutSecret, &apiv1.PutSecretRequest{Secret: args[0], Value: value, Create: create})
		if err != nil {
			return err
		}
		out := view.OfSecret(res.GetSecret())
		return a.print(out, func(w io.Writer, _ console.Style) {
			newest := out.Versions[len(out.Versions)-1]
			if !res.GetChanged() {
				fmt.Fprintf(w, "%s: version %d has this value already\n", out.Name, newest.Version)
				return
			}
			fmt.Fprintf(w, "%s: version %d, %d bytes\n", out.Name, newest.Version, newest.Size)
			if jobs := out.Users(); len(jobs) > 0 {
				fmt.Fprintf(w, "jobs that have an earlier version until they are run again: %s\n", strings.Join(jobs, " "))
			}
		})
	}
	return cmd
}

// readSecret reads a value. What is too large is refused here, where it is known what it is.
func (a *app) readSecret(file string) ([]byte, error) {
	in := a.in
	if file == "-" && console.IsTerminal(a.in) {
		return nil, refuse("Pipe it in, or name a file: what is typed stays on the screen.", "the value of a secret is not typed in")
	}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the secret: %w", err)
		}
		defer f.Close()
		in = f
	}
	value, err := io.ReadAll(io.LimitReader(in, secret.MaxValue+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the secret: %w", err)
	case len(value) == 0:
		return nil, refuse("A program that needs no password needs no secret.", "the secret is empty")
	case len(value) > secret.MaxValue:
		return nil, refuse("Let the program fetch what is larger, with a key that is a secret.", "%s has more than %d bytes", file, secret.MaxValue)
	}
	return value, nil
}

func (a *app) secretList() *cobra.Command {
	return list(a, &cobra.Command{Use: "ls", Short: "List secrets, without their values", Example: "  setpoint secret ls"}, &listing[*apiv1.SecretInfo]{
		fetch: listSecrets, view: viewed(view.OfSecrets),
		columns: []column[*apiv1.SecretInfo]{
			{"NAME", func(_ pen, x *apiv1.SecretInfo) string { return x.GetName() }, always},
			{"VERSION", func(_ pen, x *apiv1.SecretInfo) string { return fmt.Sprint(lastSecretVersion(x).GetVersion()) }, always},
			{"SIZE", func(_ pen, x *apiv1.SecretInfo) string { return fmt.Sprint(lastSecretVersion(x).GetSizeBytes()) }, always},
			{"CREATED", func(p pen, x *apiv1.SecretInfo) string { return ago(p.now, lastSecretVersion(x).GetCreated()) + " ago" }, ages},
			{"BY", func(_ pen, x *apiv1.SecretInfo) string { return lastSecretVersion(x).GetBy() }, always},
			{"JOBS", func(_ pen, x *apiv1.SecretInfo) string {
				return strings.Join(view.OfSecrets([]*apiv1.SecretInfo{x})[0].Users(), " ")
			}, long},
		},
	})
}

func listSecrets(ctx context.Context, s *server) ([]*apiv1.SecretInfo, error) {
	return pages(func(token string) (*apiv1.ListSecretsResponse, error) {
		return ask(ctx, s, s.ListSecrets, &apiv1.ListSecretsRequest{PageToken: token})
	}, func(res *apiv1.ListSecretsResponse) ([]*apiv1.SecretInfo, string) {
		return res.GetSecrets(), res.GetNextPageToken()
	})
}

func lastSecretVersion(s *apiv1.SecretInfo) *apiv1.SecretVersion {
	return s.GetVersions()[len(s.GetVersions())-1]
}

func (a *app) secretInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect NAME", Short: "Show the versions of a secret, and who uses them", Args: takes(1, 1),
		Example: "  setpoint secret inspect db-password",
		Long:    `Shows what is known of a secret: never its value. Equal digests of two versions mean equal values; a digest tells nothing else, and is none that other programs compute.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.GetSecret, &apiv1.GetSecretRequest{Secret: args[0]})
			if err != nil {
				return err
			}
			out := view.OfSecret(res.GetSecret())
			return a.print(out, func(w io.Writer, style console.Style) {
				source := "`setpoint secret`"
				if out.Configured {
					source = "the server's configuration"
				}
				fmt.Fprintf(w, "secret %s, written by %s\n\n", out.Name, source)
				table := console.NewTable("VERSION", "SIZE", "CREATED", "BY", "DIGEST", "JOBS")
				for i, x := range out.Versions {
					created := ago(time.Now(), res.GetSecret().GetVersions()[i].GetCreated())
					table.Row(fmt.Sprint(x.Version), fmt.Sprint(x.Size), created+" ago", x.By, x.Digest, strings.Join(x.Jobs, " "))
				}
				table.Write(w, style)
			})
		},
	}
}

func (a *app) secretRemove() *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove"}, Short: "Forget a secret that no job uses", Args: takes(1, 1),
		Example: "  setpoint secret rm db-password\n  setpoint secret rm db-password --version 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := ask(cmd.Context(), s, s.RemoveSecret, &apiv1.RemoveSecretRequest{Secret: args[0], Version: version}); err != nil {
				return err
			}
			return a.print(map[string]any{"name": args[0], "version": version, "removed": true}, func(w io.Writer, _ console.Style) {
				if version != 0 {
					fmt.Fprintf(w, "%s version %d: removed\n", args[0], version)
					return
				}
				fmt.Fprintf(w, "%s: removed\n", args[0])
			})
		},
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "only this `version` of it")
	return cmd
}

func (a *app) secretRekey() *cobra.Command {
	return &cobra.Command{
		Use: "rekey", Short: "Seal all secrets with another key", Args: takes(0, 0),
		Example: "  setpoint secret rekey",
		Long: `Makes another key for what the server keeps of secrets, seals all of them with it, and removes the old one. The key is secrets.key in the server's data directory, and
whoever has it and the directory secrets can read all values: keep copies of the two apart, and make a new copy of both after this.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.RekeySecrets, &apiv1.RekeySecretsRequest{})
			if err != nil {
				return err
			}
			return a.print(map[string]any{"secrets": res.GetSecrets()}, func(w io.Writer, _ console.Style) {
				fmt.Fprintf(w, "%d secrets are sealed with another key\n", res.GetSecrets())
			})
		},
	}
}
