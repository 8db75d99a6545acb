package view

import (
	"slices"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// Secret is what may be known of a secret.
type Secret struct {
	Name       string          `json:"name"`
	Configured bool            `json:"configured"` // the server's configuration has it
	Versions   []SecretVersion `json:"versions"`   // oldest first
}

// SecretVersion is one version of a secret.
type SecretVersion struct {
	Version uint64   `json:"version"`
	Created Moment   `json:"created"`
	By      string   `json:"by"`
	Size    int64    `json:"size_bytes"`
	Digest  string   `json:"digest"` // equal for equal values of this secret
	Jobs    []string `json:"jobs"`   // that use it
}

// Users returns the jobs that use any version, sorted.
func (s *Secret) Users() []string {
	var out []string
	for _, x := range s.Versions {
		out = append(out, x.Jobs...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// OfSecret returns a secret's view.
func OfSecret(s *apiv1.SecretInfo) Secret {
	return Secret{Name: s.GetName(), Configured: s.GetConfigured(), Versions: each(s.GetVersions(), func(x *apiv1.SecretVersion) SecretVersion {
		return SecretVersion{
			Version: x.GetVersion(), Created: moment(x.GetCreated()), By: x.GetBy(), Size: x.GetSizeBytes(), Digest: x.GetDigest(), Jobs: words(x.GetJobs()),
		}
	})}
}

// OfSecrets returns the views of secrets.
func OfSecrets(in []*apiv1.SecretInfo) []Secret { return each(in, OfSecret) }
