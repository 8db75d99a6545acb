package jobfile

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// secret reads which secret a task needs, and as which file.
func (d *draft) secret(b hcltext.Block) {
	s := cluster.Secret{Name: b.Label}
	d.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"version": hcltext.Set(version, &s.Version),
		"target":  hcltext.Set(hcltext.String, &s.Target),
		"mode":    hcltext.Set(fileMode, &s.Mode),
		"owner":   hcltext.Set(hcltext.String, &s.Owner),
	}})
	s = cluster.JobSpec{Task: cluster.TaskSpec{Secrets: []cluster.Secret{s}}}.WithDefaults().Task.Secrets[0]
	d.secrets = append(d.secrets, s)
	all := slices.Clone(d.secrets)
	d.say(func(s *cluster.JobSpec) { s.Task.Secrets = all })
}

// version reads which version of a secret is meant.
func version(v hcltext.Value) (uint64, bool) {
	n, ok := hcltext.Int(v)
	if ok && n < 1 {
		v.Fail("Not a version", fmt.Sprintf("It is %d; versions count from 1. Without one the task gets the newest at the time the job is submitted.", n))
		return 0, false
	}
	return uint64(n), ok
}

// fileMode reads the permissions of a file, which are written as text: a number that begins with 0 is none of HCL's.
func fileMode(v hcltext.Value) (uint32, bool) {
	text, ok := hcltext.String(v)
	if !ok {
		return 0, false
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > math.MaxUint32 {
		v.Fail("Not the permissions of a file", fmt.Sprintf("%q is no octal number, such as \"0400\".", text))
		return 0, false
	}
	if mode == 0 { // which in a specification says nothing
		v.Fail("Not the permissions of a file", fmt.Sprintf("%q lets nobody read it; \"0400\" lets its owner.", text))
		return 0, false
	}
	return uint32(mode), true
}

func secretSection(s cluster.Secret) *section {
	w := newSection("secret", s.Name)
	number(w, "version", s.Version, 0)
	text(w, "target", s.Target, s.Name)
	text(w, "mode", fmt.Sprintf("%04o", s.Mode), fmt.Sprintf("%04o", cluster.DefaultSecretMode))
	text(w, "owner", s.Owner, "")
	return w
}
