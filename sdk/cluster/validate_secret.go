package cluster

import (
	"strconv"
	"strings"
)

// maxTarget is how long the name of a file may be, in bytes.
const maxTarget = 255

func (c *checker) secrets(secrets []Secret) {
	if len(secrets) > MaxSecrets {
		c.add("task.secret", "Too many secrets", "There are %d; the limit is %d.", len(secrets), MaxSecrets)
	}
	names, targets := make(map[string]bool, len(secrets)), make(map[string]string, len(secrets))
	for _, s := range secrets {
		at := keyed("task.secret", s.Name)
		c.name(at, s.Name, "Invalid secret name", ValidateSecretName)
		if names[s.Name] {
			c.add(at, "Secret given twice", "Each secret of a task has a name of its own.")
		}
		names[s.Name] = true
		c.target(at+".target", s.Target)
		if other, taken := targets[s.Target]; taken {
			c.add(at+".target", "File given twice", "The secret %q is in the file %q already.", other, s.Target)
		}
		targets[s.Target] = s.Name
		if s.Mode == 0 || s.Mode > 0o777 {
			c.add(at+".mode", "Not the permissions of a file", "%#o is not between 0001 and 0777; 0400 lets its owner read it.", s.Mode)
		}
		c.fileOwner(at+".owner", s.Owner)
	}
}

// target checks the name of a file in a directory of the task's own: there are no directories in it.
func (c *checker) target(at, name string) {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		c.add(at, "Not the name of a file", "%q is empty, or has a slash or a NUL character: all secrets of a task are in one directory.", name)
	case len(name) > maxTarget:
		c.add(at, "Not the name of a file", "It has %d bytes; the limit is %d.", len(name), maxTarget)
	}
}

// fileOwner checks who is to own a file. Names are not taken, since they mean other users in a container than on its machine.
func (c *checker) fileOwner(at, owner string) {
	if owner == "" {
		return
	}
	user, group, hasGroup := strings.Cut(owner, ":")
	for i, number := range []string{user, group} {
		if i == 1 && !hasGroup {
			return
		}
		if _, err := strconv.ParseUint(number, 10, 31); err != nil {
			c.add(at, "Not an owner", "%q is not the number of a user, such as 1000, or of a user and a group, such as 1000:1000.", owner)
			return
		}
	}
}
