package config

import (
	"fmt"
	"net"
	"strings"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// DockerHost is where an engine listens that was not told otherwise.
const DockerHost = "unix:///var/run/docker.sock"

// Docker says how the docker driver reaches its engine, and with which credentials that pulls images.
type Docker struct {
	Enforce    Enforce    // of limits that the engine cannot enforce; default EnforceBestEffort
	Host       string     // unix:///PATH or tcp://HOST:PORT; default DockerHost
	TLS        DockerTLS  // for a tcp address; nothing: without TLS
	Registries []Registry // by host
}

// DockerTLS are files for the connection to an engine: the authority that signed the engine's certificate, and a certificate with its key for the agent.
type DockerTLS struct {
	CA   string
	Cert string
	Key  string
}

// Registry says who pulls images of a registry.
type Registry struct {
	Host         string // HOST or HOST:PORT, as in names of images; docker.io for those whose names have none
	Username     string
	PasswordFile string
}

// driver reads the settings of one driver.
func (r *reader) driver(b hcltext.Block) {
	fields := map[string]hcltext.Fields{cluster.DriverProcess: r.processFields(), cluster.DriverDocker: r.dockerFields()}
	if _, known := fields[b.Label]; !known {
		r.Fail(b.Path, b.Named, "Unknown driver settings", unknownWord(b.Label, cluster.DriverProcess, cluster.DriverDocker))
		return
	}
	r.Body(b.Body, b.Path, b.At, fields[b.Label])
}

func (r *reader) processFields() hcltext.Fields {
	p := &r.config.Agent.Process
	return hcltext.Fields{Attributes: attributes{
		"enforce":       hcltext.Set(word, &p.Enforce),
		"cgroup_parent": hcltext.Set(hcltext.String, &p.CgroupParent),
	}}
}

func (r *reader) dockerFields() hcltext.Fields {
	d := &r.config.Agent.Docker
	return hcltext.Fields{
		Attributes: attributes{
			"enforce": hcltext.Set(word, &d.Enforce),
			"host":    hcltext.Set(hcltext.String, &d.Host),
		},
		Blocks: blocks{
			"tls": r.section(attributes{
				"ca": hcltext.Set(path, &d.TLS.CA), "cert": hcltext.Set(path, &d.TLS.Cert), "key": hcltext.Set(path, &d.TLS.Key),
			}),
			"registry": {Label: "host", Repeated: true, Read: func(b hcltext.Block) {
				to := Registry{Host: b.Label}
				r.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: attributes{
					"username": hcltext.Set(hcltext.String, &to.Username), "password_file": hcltext.Set(path, &to.PasswordFile),
				}})
				d.Registries = append(d.Registries, to)
			}},
		},
	}
}

func (r *reader) checkProcess(p ProcessDriver) {
	r.enforce(hcltext.Keyed("agent.driver", cluster.DriverProcess), p.Enforce)
}

func (r *reader) enforce(at string, policy Enforce) {
	r.oneOf(at+".enforce", string(policy), string(EnforceBestEffort), string(EnforceRequired))
}

func (r *reader) checkDocker(d Docker) {
	at := hcltext.Keyed("agent.driver", cluster.DriverDocker)
	r.enforce(at, d.Enforce)
	if err := ValidateDockerHost(d.Host); err != nil {
		r.wrong(at+".host", "Not an engine's address", capital(err.Error())+".")
	}
	if d.TLS != (DockerTLS{}) {
		if !strings.HasPrefix(d.Host, "tcp://") {
			r.wrong(at+".tls", "TLS for a socket", fmt.Sprintf("%q is no tcp address; TLS is for these.", d.Host))
		}
		for _, file := range []struct{ name, path string }{{"ca", d.TLS.CA}, {"cert", d.TLS.Cert}, {"key", d.TLS.Key}} {
			r.notEmpty(at+".tls."+file.name, file.path)
		}
	}
	for _, registry := range d.Registries {
		of := hcltext.Keyed(at+".registry", registry.Host)
		if registry.Host == "" || strings.ContainsAny(registry.Host, "/ ") {
			r.wrong(of, "Not a registry", fmt.Sprintf("%q must be a host as in names of images, such as registry.example.com:5000.", registry.Host))
		}
		r.notEmpty(of+".username", registry.Username)
		r.notEmpty(of+".password_file", registry.PasswordFile)
	}
}

// ValidateDockerHost returns an error unless it is the address of an engine.
func ValidateDockerHost(host string) error {
	if path, ok := strings.CutPrefix(host, "unix://"); ok && strings.HasPrefix(path, "/") {
		return nil
	}
	if address, ok := strings.CutPrefix(host, "tcp://"); ok {
		if name, port, err := net.SplitHostPort(address); err == nil && name != "" && port != "" {
			return nil
		}
	}
	return fmt.Errorf("%q is neither like %s nor like tcp://127.0.0.1:2376", host, DockerHost)
}
