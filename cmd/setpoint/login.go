package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/pki"
)

func (a *app) loginCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "login [TOKEN@HOST:PORT]", Short: "Get a credential of your own for a server, or renew it", Args: takes(0, 1),
		Long: `Gets a credential from a server with a token that its administrator made, and writes it, with the server's address, to the data directory, where other
commands find both. The key is made here and never leaves this machine. A token serves one login.

Without an argument the credential that is there is renewed: it serves for 90 days, and commands say so when it is due.`,
		Example: "  setpoint token create --role operator                   # on the server's machine, or by any admin\n" +
			"  setpoint login SPJT-1-…@server.example:7480             # on yours; ~/.setpoint keeps what comes of it",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := a.dir()
			if err != nil {
				return err
			}
			if _, err := os.Stat(dir.Authority()); err == nil {
				return refuse("Name another with --data-dir, such as --data-dir ~/.setpoint.", "%s is a server's data directory, which has its administrator's credential", dir)
			}
			pair, err := a.credential(cmd, dir, args, name)
			if err != nil {
				return err
			}
			if err := pair.Save(dir.LoginPair()); err != nil {
				return err
			}
			id := pair.Identity()
			out := loggedIn{Name: id.Name, Role: string(id.Role), Cluster: id.ClusterID, Expires: pair.Certificate().NotAfter, File: dir.LoginPair()}
			return a.print(out, func(w io.Writer, s console.Style) {
				fmt.Fprintf(w, "%s: %s of cluster %s until %s\n", out.Name, out.Role, out.Cluster, out.Expires.Local().Format(time.DateOnly))
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "under which `name` the audit log says what you did, unless the token has one (default: USER@HOST)")
	return cmd
}

// loggedIn is what comes of a login.
type loggedIn struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Cluster string    `json:"cluster"`
	Expires time.Time `json:"expires"`
	File    string    `json:"file"`
}

// credential gets a credential for a token, with the server's address, or renews the one that is there.
func (a *app) credential(cmd *cobra.Command, dir datadir.Dir, args []string, name string) (*pki.Pair, error) {
	if len(args) == 0 {
		s, err := a.connect()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		pair, err := s.Renew(cmd.Context())
		return pair, refusal(s.Addr(), err)
	}
	text, addr, found := strings.Cut(args[0], "@")
	if !found || addr == "" {
		return nil, refuse("Write TOKEN@HOST:PORT.", "there is no server in the argument")
	}
	token, err := pki.ParseToken(text)
	if err != nil {
		return nil, refuse("`setpoint token create --role operator` makes one.", "%v", err)
	}
	pair, err := client.Login(cmd.Context(), addr, token, cmp.Or(name, personName()))
	if err != nil {
		return nil, refusal(addr, err)
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	return pair, dir.WriteAddress("https://" + strings.TrimPrefix(addr, "https://"))
}

// personName returns who calls, as far as the machine knows.
func personName() string {
	name, host := "somebody", "somewhere"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return name + "@" + host
}

// warnOfExpiry says so when a credential that somebody logged in with should be renewed. Servers renew their own.
func (a *app) warnOfExpiry(pair *pki.Pair) {
	if now := time.Now(); now.After(pair.RenewAt()) {
		fmt.Fprintf(a.errOut, "The credential of %s serves until %s: `setpoint login` renews it.\n",
			pair.Identity().Name, pair.Certificate().NotAfter.Local().Format(time.DateTime))
	}
}

// warnOfRotation says so when a credential will serve no more once the cluster's old authority is retired.
func (a *app) warnOfRotation() {
	fmt.Fprintln(a.errOut, "The cluster's authority is being replaced, and your credential is of the old one: `setpoint login` renews it.")
}
