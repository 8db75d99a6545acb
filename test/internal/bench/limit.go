package bench

import (
	"fmt"
	"os/exec"
)

// LimitServer lowers a limit of the server that runs, such as "nproc", for what it does from now on.
func (c *Cluster) LimitServer(name string, most int) {
	c.t.Helper()
	argv := append(c.asUser(), "prlimit", "--pid", fmt.Sprint(c.ServerPID()), fmt.Sprintf("--%s=%d:", name, most))
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("lower the server's limit %s: %v: %s", name, err, out)
	}
}

// asUser is what a command line begins with that is to run as the server's user.
func (c *Cluster) asUser() []string {
	if c.opts.User == 0 {
		return nil
	}
	user := fmt.Sprint(c.opts.User)
	return []string{"setpriv", "--clear-groups", "--reuid", user, "--regid", user, "--"}
}
