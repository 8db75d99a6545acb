package compose

import (
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/hashicorp/hcl/v2"
	"go.yaml.in/yaml/v4"

	"github.com/setpointd/setpoint/core/hcltext"
)

// mounts reads volumes and tmpfs as the driver's mounts, in the order of the file.
func (c *conversion) mounts() {
	var out []map[string]any
	for _, v := range c.service.Volumes {
		if m := c.mount(v, c.volumeAt(v)); m != nil {
			out = append(out, m)
		}
	}
	for _, each := range c.service.Tmpfs {
		out = append(out, c.tmpfs(each))
	}
	if len(out) == 0 {
		return
	}
	at := "volumes"
	if len(c.service.Volumes) == 0 {
		at = "tmpfs"
	}
	c.setList("mounts", out, at)
}

func (c *conversion) mount(v types.ServiceVolumeConfig, at hcl.Range) map[string]any {
	m := map[string]any{"target": v.Target}
	if v.ReadOnly {
		m["read_only"] = true
	}
	switch v.Type {
	case types.VolumeTypeBind:
		m["source"] = v.Source
		if !strings.HasPrefix(v.Source, "/") {
			c.Fail("task.config", at, "Not a path of a node", "The source of a bind is an absolute path.")
		}
		if rel := c.relative(v); rel != "" {
			c.tell(at, keys("volumes.source"), true, "%s became %s, which must be there on the nodes", rel, v.Source)
		}
		if v.Bind != nil && c.expresslyMade(v) {
			c.tell(at, keys("volumes.bind.create_host_path"), true, "a directory that is not there is not made; the task is rejected, with its path")
		}
	case types.VolumeTypeVolume:
		if v.Source != "" {
			m["source"] = c.volume(v.Source, at)
		}
	case types.VolumeTypeTmpfs:
		m["type"] = "tmpfs"
		if v.Tmpfs != nil && v.Tmpfs.Size > 0 {
			m["size"] = hcltext.FormatBytes(int64(v.Tmpfs.Size))
		}
	default:
		c.tell(at, keys("volumes.type"), false, "there are mounts of type bind, volume and tmpfs, and none of type %q", v.Type)
		return nil
	}
	if source, _ := m["source"].(string); swarmTemplate.MatchString(source) {
		c.tell(at, keys("volumes.source"), false, "the template %s cannot be kept", short(source))
	}
	return m
}

// volume is the name of a volume for the engine: the one that Compose gives it.
func (c *conversion) volume(name string, at hcl.Range) string {
	v, known := c.loaded.project.Volumes[name]
	if !known {
		c.Fail("task.config", at, "Unknown volume", "There is no volume "+name+" in the file's volumes.")
		return name
	}
	switch {
	case v.Name != "":
		return v.Name
	case bool(v.External) || c.loaded.stack == "":
		return name
	}
	return c.loaded.stack + "_" + name
}

// relative is the source of a mount as it is written, if it is relative to the file.
func (c *conversion) relative(v types.ServiceVolumeConfig) string {
	found := ""
	c.lineOf("volumes", func(n *yaml.Node) bool {
		if !isVolume(n, v) {
			return false
		}
		source, _, _ := strings.Cut(n.Value, ":")
		if _, s := child(n, "source", 0); s != nil {
			source = s.Value
		}
		if strings.HasPrefix(source, ".") || strings.HasPrefix(source, "~") {
			found = source
		}
		return true
	})
	return found
}

// expresslyMade reports whether the file says that the source of a bind is to be made.
func (c *conversion) expresslyMade(v types.ServiceVolumeConfig) bool {
	made := false
	c.lineOf("volumes", func(n *yaml.Node) bool {
		if !isVolume(n, v) {
			return false
		}
		if _, bind := child(n, "bind", 0); bind != nil {
			_, create := child(bind, "create_host_path", 0)
			made = create != nil && create.Value == "true"
		}
		return true
	})
	return made
}

func (c *conversion) volumeAt(v types.ServiceVolumeConfig) hcl.Range {
	return c.lineOf("volumes", func(n *yaml.Node) bool { return isVolume(n, v) })
}

// isVolume reports whether an element of volumes is the one with that target.
func isVolume(n *yaml.Node, v types.ServiceVolumeConfig) bool {
	if n.Kind != yaml.ScalarNode {
		_, target := child(n, "target", 0)
		return target != nil && strings.TrimRight(target.Value, "/") == strings.TrimRight(v.Target, "/")
	}
	return slices.ContainsFunc(strings.Split(n.Value, ":"), func(part string) bool {
		return part != "" && strings.TrimRight(part, "/") == strings.TrimRight(v.Target, "/")
	})
}

// tmpfs reads a short form such as /run:size=64m.
func (c *conversion) tmpfs(text string) map[string]any {
	target, options, _ := strings.Cut(text, ":")
	m := map[string]any{"type": "tmpfs", "target": target}
	for _, option := range strings.Split(options, ",") {
		name, value, _ := strings.Cut(option, "=")
		n, ok := dockerBytes(value)
		switch {
		case option == "":
		case name == "size" && ok && n > 0:
			m["size"] = hcltext.FormatBytes(n)
		case option == "ro":
			m["read_only"] = true
		case option == "rw" || option == "noexec" || option == "nosuid" || option == "nodev": // what they are by default
		default:
			c.tell(c.at("tmpfs", text), keys("tmpfs"), false, "%s is nothing that can be said here", option)
		}
	}
	return m
}

// dockerUnits are the units of Docker's sizes, all of which are powers of 1024.
var dockerUnits = map[string]int64{"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

var dockerSize = regexp.MustCompile(`^([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([bkmgt]?)(?:i?b)?$`)

// dockerBytes reads a size such as 64m as Docker does.
func dockerBytes(text string) (int64, bool) {
	m := dockerSize.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return 0, false
	}
	amount, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return 0, false
	}
	amount.Mul(amount, new(big.Rat).SetInt64(dockerUnits[m[2]]))
	n := new(big.Int).Quo(amount.Num(), amount.Denom())
	return n.Int64(), n.IsInt64()
}
