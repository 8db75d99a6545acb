package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// The headers by which a caller says on which terms a call is made, and those that answer them.
const (
	HeaderKey     = "Idempotency-Key"     // a key under which a command is carried out once
	HeaderIfMatch = "If-Match"            // a version of the job, instead of the field if_version
	HeaderETag    = "ETag"                // the job's version
	HeaderAgain   = "Idempotent-Replayed" // "true": the key was used before, and nothing was done now
)

// keyed are the calls that take a key: all that the engine carries out.
var keyed = map[string]bool{
	apiv1connect.ApiServiceRunJobProcedure:           true,
	apiv1connect.ApiServiceStopJobProcedure:          true,
	apiv1connect.ApiServiceStartJobProcedure:         true,
	apiv1connect.ApiServiceRestartJobProcedure:       true,
	apiv1connect.ApiServiceScaleJobProcedure:         true,
	apiv1connect.ApiServiceRollbackJobProcedure:      true,
	apiv1connect.ApiServiceRebalanceJobProcedure:     true,
	apiv1connect.ApiServiceRemoveJobProcedure:        true,
	apiv1connect.ApiServiceControlUpdateProcedure:    true,
	apiv1connect.ApiServiceStopTaskProcedure:         true,
	apiv1connect.ApiServiceSetAvailabilityProcedure:  true,
	apiv1connect.ApiServiceLabelNodeProcedure:        true,
	apiv1connect.ApiServiceDecommissionNodeProcedure: true,
	apiv1connect.ApiServiceRemoveNodeProcedure:       true,
	apiv1connect.ApiServiceConfirmDownProcedure:      true,
	apiv1connect.ApiServiceConfirmPluginProcedure:    true,
}

// terms holds callers' terms, behind the gate: a command under a key is carried out once, one for a version of a job only at that version, and an answer has the
// fields that were asked for.
type terms struct{ *service }

// WrapUnary implements connect.Interceptor.
func (t terms) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		message, ok := req.Any().(proto.Message)
		if !ok {
			return next(ctx, req)
		}
		problems := setIfVersion(message.ProtoReflect(), req.Header().Values(HeaderIfMatch))
		key, problem := keyOf(req)
		problems = append(problems, problem...)
		chosen, problem := chosenFields(req, message)
		problems = append(problems, problem...)
		if err := invalid("the request", problems...); err != nil {
			return nil, err
		}
		res, err := t.answer(ctx, req, key, next)
		if err != nil {
			return nil, err
		}
		if answer, ok := res.Any().(proto.Message); ok {
			setETag(res.Header(), answer)
			chosen.prune(answer)
		}
		return res, nil
	}
}

// answer has a call answered, or answers as the first call under its key was.
func (t terms) answer(ctx context.Context, req connect.AnyRequest, key string, next connect.UnaryFunc) (connect.AnyResponse, error) {
	if key == "" {
		return next(ctx, req)
	}
	digest, err := digestOf(req)
	if err != nil {
		return nil, err
	}
	// What is checked before a command is given is not checked again, since it may be otherwise by now.
	if r := t.view().Request(author(ctx), key); r != nil {
		err = engine.Again(r, digest)
	} else {
		var res connect.AnyResponse
		res, err = next(context.WithValue(ctx, keyKey{}, callKey{key, digest}), req)
		if err == nil {
			return res, nil
		}
	}
	var again *engine.Repeated
	if !errors.As(err, &again) {
		return nil, err
	}
	res, err := t.again(req.Spec(), again.Request)
	if err != nil {
		return nil, err
	}
	res.Header().Set(HeaderAgain, "true")
	return res, nil
}

// WrapStreamingHandler implements connect.Interceptor. A stream has no terms.
func (t terms) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// WrapStreamingClient implements connect.Interceptor; terms are not held at clients.
func (t terms) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

type keyKey struct{}

// callKey is the key under which a call's command is carried out once.
type callKey struct{ key, digest string }

// keyedEngine gives the engine commands under the key of their call.
type keyedEngine struct{ Engine }

// Do implements Engine.
func (k keyedEngine) Do(ctx context.Context, by string, op engine.Op) (any, error) {
	if c, ok := ctx.Value(keyKey{}).(callKey); ok {
		op = engine.Keyed{Op: op, Key: c.key, Digest: c.digest}
	}
	return k.Engine.Do(ctx, by, op)
}

var keyPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)

func validKey(key string) bool { return len(key) <= 128 && keyPattern.MatchString(key) }

// keyOf returns the key of a call, "" if it has none. Reading needs none, so that it may have one.
func keyOf(req connect.AnyRequest) (string, []cluster.Problem) {
	values := req.Header().Values(HeaderKey)
	if len(values) == 0 || req.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects {
		return "", nil
	}
	key := strings.Trim(values[0], `"`)
	switch {
	case !keyed[req.Spec().Procedure]:
		return "", []cluster.Problem{{
			Path: HeaderKey, Summary: "This call takes no key", Detail: "It is not carried out by the cluster's state, so nobody could tell whether it was carried out before.",
		}}
	case len(values) > 1 || !validKey(key):
		return "", []cluster.Problem{{Path: HeaderKey, Summary: "Not a key", Detail: "One of 1 to 128 letters, digits, and . _ : - is; a random UUID does well."}}
	}
	return key, nil
}

// digestOf returns what tells one request from another.
func digestOf(req connect.AnyRequest) (string, error) {
	message, ok := req.Any().(proto.Message)
	if !ok {
		return "", fmt.Errorf("digest of a request: %T is no message", req.Any())
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return "", fmt.Errorf("digest of a request: %w", err)
	}
	sum := sha256.New()
	sum.Write([]byte(req.Spec().Procedure + "\n"))
	sum.Write(b)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// setIfVersion sets a request's field if_version from its header If-Match.
func setIfVersion(m protoreflect.Message, header []string) []cluster.Problem {
	if len(header) == 0 {
		return nil
	}
	field := m.Descriptor().Fields().ByName("if_version")
	if field == nil {
		return []cluster.Problem{{Path: HeaderIfMatch, Summary: "This call takes no version", Detail: "Only commands about one job do."}}
	}
	text := strings.TrimSpace(header[0])
	if text == "*" && len(header) == 1 {
		return nil
	}
	version, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 64)
	if err != nil || version == 0 || len(header) > 1 {
		return []cluster.Problem{{Path: HeaderIfMatch, Summary: "Not a version", Detail: `Give one job version as its ETag has it, such as "7".`}}
	}
	if own := m.Get(field).Uint(); own != 0 && own != version {
		return []cluster.Problem{{Path: "if_version", Summary: "Two versions", Detail: fmt.Sprintf("The field says %d, and the header If-Match %d: give one of them.", own, version)}}
	}
	m.Set(field, protoreflect.ValueOfUint64(version))
	return nil
}

// setETag says which version the job has that an answer is about.
func setETag(h http.Header, answer proto.Message) {
	about, ok := answer.(interface{ GetJob() *apiv1.Job })
	if !ok || about.GetJob().GetVersion() == 0 {
		return
	}
	h.Set(HeaderETag, strconv.Quote(strconv.FormatUint(about.GetJob().GetVersion(), 10)))
}
