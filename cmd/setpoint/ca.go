package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) caCommand() *cobra.Command {
	return group("ca", "Look at the cluster's certificate authority, and replace it", a.caShow(), a.caRotate(), a.caFinish(), a.caRequest())
}

func (a *app) caShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the authority, and how far it is replaced", Args: takes(0, 0),
		Example: "  setpoint ca show -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.GetAuthority, &apiv1.GetAuthorityRequest{})
			if err != nil {
				return err
			}
			return a.printAuthority(res)
		},
	}
}

func (a *app) caRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Short: "Replace the authority; both serve until ca finish", Args: takes(0, 0),
		Example: "  setpoint ca rotate && setpoint ca show",
		Long: `Makes a new authority for the cluster, which issues all certificates from now on. No task and no session is disturbed: whoever has a certificate of the old
authority is served as before. Agents that are connected get a new certificate within a few heartbeats; people renew theirs with ` + "`setpoint login`" + `, and are told so by
every command. Tokens made before serve as well.

` + "`setpoint ca show`" + ` tells which nodes still have a certificate of the old authority, and ` + "`setpoint ca finish`" + ` ends trust in it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.RotateAuthority, &apiv1.RotateAuthorityRequest{})
			if err != nil {
				return err
			}
			return a.printAuthority(res)
		},
	}
}

func (a *app) caFinish() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "finish", Short: "Retire the old authority: its certificates and tokens serve no more", Args: takes(0, 0),
		Example: "  setpoint ca finish",
		Long: `Ends the replacement of the authority: certificates and tokens of the old one serve no more, and its key is removed. While nodes may have certificates of the old
authority this is refused and says which. With --force they are locked out, and have to join again with a token and an empty data directory; their tasks run on until then,
and are replaced as those of any node that is down.

Other programs that log in, such as Prometheus, need a new credential at that moment: ` + "`setpoint login --data-dir DIR`" + ` before, and the new file is good after.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.FinishAuthority, &apiv1.FinishAuthorityRequest{Force: force})
			if err != nil {
				return err
			}
			return a.printAuthority(res)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also while nodes have certificates of the old authority: they have to join again")
	return cmd
}

func (a *app) caRequest() *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use: "request KEYFILE", Short: "Make a key and a request for an authority that one of yours signs", Args: takes(1, 1),
		Long: `Makes a key for the cluster's authority, writes it to a new file that only you may read, and prints a request for its certificate. Have an authority of yours sign
it, as an intermediate authority that keeps the request's subject alternative name; then name both files in the server's configuration, as tls { authority { … } }.

The request names the cluster that the server is of. For one that does not exist yet choose an id with --cluster: lower-case letters, digits and dashes.`,
		Example: "  setpoint ca request authority-key.pem > authority.csr\n" +
			"  openssl x509 -req -in authority.csr -CA root.pem -CAkey root-key.pem -days 1825 -copy_extensions copyall -out authority.pem",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				s, err := a.connect()
				if err != nil {
					return err
				}
				res, err := ask(cmd.Context(), s, s.GetAuthority, &apiv1.GetAuthorityRequest{})
				if err != nil {
					return err
				}
				cluster = res.GetClusterId()
			}
			request, key, err := pki.NewAuthorityRequest(cluster)
			if err != nil {
				return refuse("Choose another with --cluster.", "%v", err)
			}
			f, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return refuse("Name a new file: a key that is there may be in use.", "%s exists", args[0])
			}
			if err != nil {
				return fmt.Errorf("write the key: %w", err)
			}
			if _, err = f.Write(key); err == nil {
				err = f.Sync()
			}
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("write the key: %w", err)
			}
			_, err = a.out.Write(request)
			return err
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "`id` of the cluster (default: that of the server that is asked)")
	return cmd
}

func (a *app) printAuthority(res *apiv1.GetAuthorityResponse) error {
	return a.print(view.OfAuthority(res), func(w io.Writer, _ console.Style) {
		fmt.Fprintf(w, "cluster    %s\n", res.GetClusterId())
		fmt.Fprintf(w, "authority  %s\n", authorityText(res.GetCurrent()))
		if res.GetRetiring() == nil {
			return
		}
		fmt.Fprintf(w, "retiring   %s\n", authorityText(res.GetRetiring()))
		left := len(res.GetWaiting()) + len(res.GetAway())
		fmt.Fprintf(w, "nodes      %d of %d have a certificate of the new authority\n", int(res.GetNodes())-left, res.GetNodes())
		for _, line := range []struct {
			names []string
			about string
		}{{res.GetWaiting(), "renew it by themselves soon"}, {res.GetAway(), "not connected: nobody knows; they renew it when they come back"}} {
			if len(line.names) > 0 {
				fmt.Fprintf(w, "           %s: %s\n", line.about, strings.Join(line.names, " "))
			}
		}
		fmt.Fprintln(w, "`setpoint ca finish` retires the old one.")
	})
}

func authorityText(a *apiv1.Authority) string {
	return fmt.Sprintf("%s, made %s, expires %s", a.GetFingerprint(), timeOf(a.GetCreated()).Local().Format(time.DateOnly), timeOf(a.GetExpires()).Local().Format(time.DateOnly))
}
