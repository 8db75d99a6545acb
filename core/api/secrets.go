package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/secret"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Secrets keeps the cluster's secrets; *secret.Vault is one. The API never reads a value.
type Secrets interface {
	Put(p secret.Put) (secret.Info, bool, error)
	Remove(name string, version uint64) error
	Rekey() error
	List() []secret.Info
	Info(name string) (secret.Info, bool)
}

const listSecrets = "secret ls lists those that there are"

var errNoSecrets = connect.NewError(connect.CodeUnimplemented, errors.New("this server keeps no secrets"))

// ListSecrets returns all secrets, without their values.
func (v *service) ListSecrets(_ context.Context, req *connect.Request[apiv1.ListSecretsRequest]) (*connect.Response[apiv1.ListSecretsResponse], error) {
	if v.opts.Secrets == nil {
		return nil, errNoSecrets
	}
	p, err := newPage(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	users := secretUsers(v.view())
	var rows []row[*apiv1.SecretInfo]
	for _, s := range v.opts.Secrets.List() {
		rows = append(rows, row[*apiv1.SecretInfo]{s.Name, secretView(s, users)})
	}
	out := &apiv1.ListSecretsResponse{}
	out.Secrets, out.NextPageToken = cut(p, rows)
	return connect.NewResponse(out), nil
}

// GetSecret returns one secret, without its value.
func (v *service) GetSecret(_ context.Context, req *connect.Request[apiv1.GetSecretRequest]) (*connect.Response[apiv1.SecretResponse], error) {
	if v.opts.Secrets == nil {
		return nil, errNoSecrets
	}
	info, ok := v.opts.Secrets.Info(req.Msg.GetSecret())
	if !ok {
		return nil, notFound("secret", req.Msg.GetSecret(), listSecrets)
	}
	return connect.NewResponse(&apiv1.SecretResponse{Secret: secretView(info, secretUsers(v.view()))}), nil
}

// PutSecret makes a secret, or the next version of one. Older versions that no job uses go, as far as there are too many.
func (v *service) PutSecret(ctx context.Context, req *connect.Request[apiv1.PutSecretRequest]) (*connect.Response[apiv1.SecretResponse], error) {
	if v.opts.Secrets == nil {
		return nil, errNoSecrets
	}
	m := req.Msg
	if err := cluster.ValidateSecretName(m.GetSecret()); err != nil {
		return nil, invalid("the request", cluster.Problem{Path: "secret", Summary: "Invalid secret name", Detail: err.Error()})
	}
	v.pinning.Lock()
	defer v.pinning.Unlock()
	users := secretUsers(v.view())
	info, changed, err := v.opts.Secrets.Put(secret.Put{
		Name: m.GetSecret(), Value: secret.NewValue(m.GetValue()), By: author(ctx), First: m.GetCreate(),
		InUse: func(version uint64) bool { return len(users[pinned{m.GetSecret(), version}]) > 0 },
	})
	if err != nil {
		return nil, refusedSecret(m.GetSecret(), err)
	}
	return connect.NewResponse(&apiv1.SecretResponse{Secret: secretView(info, users), Changed: changed}), nil
}

// RemoveSecret forgets a secret, or a version of one.
func (v *service) RemoveSecret(_ context.Context, req *connect.Request[apiv1.RemoveSecretRequest]) (*connect.Response[apiv1.RemoveSecretResponse], error) {
	if v.opts.Secrets == nil {
		return nil, errNoSecrets
	}
	name, version := req.Msg.GetSecret(), req.Msg.GetVersion()
	v.pinning.Lock()
	defer v.pinning.Unlock()
	var jobs []string
	for p, users := range secretUsers(v.view()) {
		if p.name == name && (version == 0 || p.version == version) {
			jobs = append(jobs, users...)
		}
	}
	if slices.Sort(jobs); len(jobs) > 0 {
		return nil, &engine.OpError{
			Kind: engine.Refused, Message: fmt.Sprintf("secret %s is used by %s", name, someOf(slices.Compact(jobs))),
			Hint: "run the jobs without it, or with another version of it, and wait until their tasks have been replaced; or remove the jobs",
		}
	}
	if err := v.opts.Secrets.Remove(name, version); err != nil {
		return nil, refusedSecret(name, err)
	}
	return connect.NewResponse(&apiv1.RemoveSecretResponse{}), nil
}

// RekeySecrets seals all secrets with another key.
func (v *service) RekeySecrets(context.Context, *connect.Request[apiv1.RekeySecretsRequest]) (*connect.Response[apiv1.RekeySecretsResponse], error) {
	if v.opts.Secrets == nil {
		return nil, errNoSecrets
	}
	if err := v.opts.Secrets.Rekey(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.RekeySecretsResponse{Secrets: int64(len(v.opts.Secrets.List()))}), nil
}

// refusedSecret says what to do about what the vault refused.
func refusedSecret(name string, err error) error {
	for _, known := range []struct {
		err  error
		kind engine.Kind
		hint string
	}{
		{secret.ErrNotFound, engine.NotFound, "secret ls lists those that there are, and secret create makes one"},
		{secret.ErrNoVersion, engine.NotFound, "secret inspect " + name + " shows the versions that it has"},
		{secret.ErrExists, engine.Conflict, "secret rotate makes its next version"},
		{secret.ErrConfigured, engine.Refused, "change the file that the block names and reload the server, or remove the block"},
		{secret.ErrTooLarge, engine.Invalid, "let the program fetch what is larger, with a key that is a secret"},
		{secret.ErrTooMany, engine.Refused, "remove some with secret rm"},
	} {
		if errors.Is(err, known.err) {
			return &engine.OpError{Kind: known.kind, Message: fmt.Sprintf("secret %s: %v", name, known.err), Hint: known.hint}
		}
	}
	return err
}

// pinned is one version of a secret, as jobs name it.
type pinned struct {
	name    string
	version uint64
}

// secretUsers returns which jobs use which versions of secrets: by what they are, what their update moves from or to, and what tasks or slots still run.
func secretUsers(s *engine.State) map[pinned][]string {
	out := make(map[pinned][]string)
	for j := range s.Jobs() {
		inUse := versionsInUse(s, j)
		for i := range j.Control.Versions {
			v := &j.Control.Versions[i]
			for _, x := range v.Spec.Task.Secrets {
				p := pinned{x.Name, x.Version}
				if inUse[v.Version] && !slices.Contains(out[p], j.Name) {
					out[p] = append(out[p], j.Name)
				}
			}
		}
	}
	return out
}

// versionsInUse returns the versions of a job that something runs or may run without being asked. Jobs without secrets need none.
func versionsInUse(s *engine.State, j *cluster.Job) map[uint64]bool {
	if !slices.ContainsFunc(j.Control.Versions, func(v cluster.JobVersion) bool { return len(v.Spec.Task.Secrets) > 0 }) {
		return nil
	}
	out := map[uint64]bool{j.Control.Version: true}
	if u := j.Update.State; u == cluster.Updating || u == cluster.UpdatePaused {
		out[j.Update.From], out[j.Update.To] = true, true
	}
	for _, slot := range s.Slots(j.Name) {
		out[slot.Version] = true
	}
	for t := range s.TasksOf(j.Name) {
		if !t.Dead() {
			out[t.JobVersion] = true
		}
	}
	return out
}

// pin puts the newest version of each secret into a job that names none, and returns what is wrong with those that it names.
func (v *service) pin(spec *cluster.JobSpec) []cluster.Problem {
	var problems []cluster.Problem
	spec.Task.Secrets = slices.Clone(spec.Task.Secrets)
	for i := range spec.Task.Secrets {
		s := &spec.Task.Secrets[i]
		at := fmt.Sprintf("task.secret[%q]", s.Name)
		info, ok := v.secretInfo(s.Name)
		switch {
		case !ok:
			problems = append(problems, v.unknownSecret(at, s.Name))
		case s.Version == 0:
			s.Version = info.Newest().Number
		case !slices.ContainsFunc(info.Versions, func(x secret.Version) bool { return x.Number == s.Version }):
			problems = append(problems, cluster.Problem{
				Path: at + ".version", Summary: fmt.Sprintf("The secret has no version %d", s.Version),
				Detail: fmt.Sprintf("Its newest is %d; `setpoint secret inspect %s` shows all. Without a version the job gets the newest.", info.Newest().Number, s.Name),
			})
		}
	}
	return problems
}

func (v *service) secretInfo(name string) (secret.Info, bool) {
	if v.opts.Secrets == nil {
		return secret.Info{}, false
	}
	return v.opts.Secrets.Info(name)
}

func (v *service) unknownSecret(at, name string) cluster.Problem {
	p := cluster.Problem{Path: at, Summary: "There is no such secret", Detail: fmt.Sprintf("`setpoint secret create %s FILE` makes it.", name)}
	if v.opts.Secrets == nil {
		p.Detail = "This server keeps no secrets."
		return p
	}
	var known []string
	for _, s := range v.opts.Secrets.List() {
		known = append(known, s.Name)
	}
	if near := cluster.Suggest(name, known); near != "" {
		p.Detail = fmt.Sprintf("Did you mean %q? %s", near, p.Detail)
	}
	return p
}

// rollbackOp returns the operation that goes back to an earlier version of a job, unless secrets of that are gone.
func (v *service) rollbackOp(m *apiv1.RollbackJobRequest) (engine.RollbackJob, error) {
	op := engine.RollbackJob{Job: m.GetJob(), To: m.GetTo()}
	job := v.view().Job(op.Job)
	if job == nil {
		return op, nil // the engine says so
	}
	to := job.Earlier(op.To)
	if to == nil {
		return op, nil
	}
	spec := to.Spec
	problems := v.pin(&spec)
	if len(problems) == 0 {
		return op, nil
	}
	var lost []string
	for _, p := range problems {
		lost = append(lost, p.Path)
	}
	return op, &engine.OpError{
		Kind: engine.Refused, Message: fmt.Sprintf("version %d of job %s names secrets that are gone: %s", to.Version, op.Job, strings.Join(lost, ", ")),
		Hint: "run a file of the job, which gets the newest version of each secret",
	}
}

func secretView(s secret.Info, users map[pinned][]string) *apiv1.SecretInfo {
	out := &apiv1.SecretInfo{Name: s.Name, Configured: s.Configured}
	for _, x := range s.Versions {
		jobs := slices.Clone(users[pinned{s.Name, x.Number}])
		slices.Sort(jobs)
		out.Versions = append(out.Versions, &apiv1.SecretVersion{
			Version: x.Number, Created: timestamppb.New(x.Created), By: x.By, SizeBytes: int64(x.Size), Digest: x.Digest, Jobs: jobs,
		})
	}
	return out
}
