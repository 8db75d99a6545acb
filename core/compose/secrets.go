package compose

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// secretsDir is where containers find their secrets, in Swarm and here.
const secretsDir = "/run/secrets"

// secretMode is what Swarm gives files of secrets: images that begin as root and go on as another user read them as that.
const secretMode = 0o444

// secrets reads what is external as secrets of the cluster. A file or a variable of this machine is not sent along.
func (c *conversion) secrets() {
	var out []cluster.Secret
	for _, ref := range c.service.Secrets {
		if s, ok := c.secret(ref); ok {
			out = append(out, s)
		}
	}
	if len(out) > 0 {
		c.say(func(s *cluster.JobSpec) { s.Task.Secrets = out })
	}
}

func (c *conversion) secret(ref types.ServiceSecretConfig) (cluster.Secret, bool) {
	at := c.lineOf("secrets", func(n *yaml.Node) bool { return isSecret(n, ref.Source) })
	lose := func(format string, args ...any) {
		c.tell(at, keys("secrets.source"), false, format, args...)
	}
	declared, known := c.loaded.project.Secrets[ref.Source]
	name := cmp.Or(declared.Name, ref.Source)
	switch err := cluster.ValidateSecretName(name); {
	case !known:
		c.Fail(hcltext.Keyed("task.secret", ref.Source), at, "Unknown secret", "There is no secret "+ref.Source+" in the file's secrets.")
		return cluster.Secret{}, false
	case !bool(declared.External):
		lose("%s", notExternal(ref.Source, declared))
		return cluster.Secret{}, false
	case err != nil:
		lose("a secret of the cluster cannot be called so, since %v: make it under another name, and say that name as `name` beside `external`", err)
		return cluster.Secret{}, false
	}
	c.Record(hcltext.Keyed("task.secret", name), at)
	out := cluster.Secret{Name: name, Target: ref.Source, Mode: secretMode, Owner: ownerOf(ref)}
	if ref.Mode != nil {
		out.Mode = uint32(min(max(0, *ref.Mode), 1<<31)) // what is no mode is refused with the job
	}
	if ref.Target != "" {
		out.Target = strings.TrimPrefix(path.Clean(ref.Target), secretsDir+"/")
	}
	if strings.Contains(out.Target, "/") {
		c.tell(at, keys("secrets.target"), false, "secrets are files in %s itself, and not at %s: it is %s/%s", secretsDir, ref.Target, secretsDir, ref.Source)
		out.Target = ref.Source
	}
	return out, true
}

// isSecret reports whether an element of secrets is the one of that source.
func isSecret(n *yaml.Node, source string) bool {
	if _, s := child(n, "source", 0); s != nil {
		return s.Value == source
	}
	return n.Value == source
}

// ownerOf is who owns the file; "" if nothing is said. What one of the numbers leaves out is root's, as in Swarm.
func ownerOf(ref types.ServiceSecretConfig) string {
	if ref.UID == "" && ref.GID == "" {
		return ""
	}
	return cmp.Or(ref.UID, "0") + ":" + cmp.Or(ref.GID, "0")
}

// notExternal says how a secret that the file brings along gets into the cluster.
func notExternal(source string, s types.SecretConfig) string {
	name := strings.ToLower(source)
	if cluster.ValidateSecretName(name) != nil {
		name = "NAME"
	}
	const then = "then `external: true` in place of `%s` has tasks get it"
	switch {
	case s.File != "":
		return fmt.Sprintf("its file is not sent along: `setpoint secret create %s FILE` puts it into the cluster, "+then, name, "file")
	case s.Environment != "":
		return fmt.Sprintf("its variable is not sent along: `printf %%s \"$%s\" | setpoint secret create %s -` puts it into the cluster, "+then, s.Environment, name, "environment")
	case s.Driver != "":
		return "secrets come from the cluster, and from no driver"
	}
	return fmt.Sprintf("`setpoint secret create %s FILE` puts it into the cluster, and `external: true` has tasks get it", name)
}
