package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// problem is an error as a page shows it.
type problem struct {
	Status   int
	Title    string
	Message  string
	Hint     string
	Problems []*apiv1.Problem
}

// problemOf returns what is to be said of an error, by the API's own words where it is one of its.
func problemOf(err error) problem {
	var coded *connect.Error
	var op *engine.OpError
	switch {
	case errors.Is(err, errForm):
		return problem{Status: http.StatusForbidden, Title: "Refused", Message: err.Error()}
	case errors.As(err, &op):
		p := problem{Status: http.StatusBadRequest, Title: "Refused", Message: op.Message, Hint: op.Hint}
		if op.Kind == engine.NotFound {
			p.Status, p.Title = http.StatusNotFound, "Not found"
		}
		return p
	case errors.As(err, &coded):
		p := problem{Status: statusOf(coded.Code()), Title: "Refused", Message: coded.Message()}
		if p.Status == http.StatusNotFound {
			p.Title = "Not found"
		}
		for _, d := range coded.Details() {
			if v, err := d.Value(); err == nil {
				if detail, ok := v.(*apiv1.ErrorDetail); ok {
					p.Hint, p.Problems = detail.GetHint(), detail.GetProblems()
				}
			}
		}
		return p
	case errors.Is(err, context.DeadlineExceeded):
		return problem{Status: http.StatusGatewayTimeout, Title: "Too slow", Message: "The server took too long to answer.", Hint: "try again"}
	}
	return problem{Status: http.StatusInternalServerError, Title: "Error", Message: "The server has a bug here; its log has the details."}
}

func statusOf(code connect.Code) int {
	switch code {
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return http.StatusForbidden
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return http.StatusBadRequest
	case connect.CodeFailedPrecondition, connect.CodeAborted:
		return http.StatusConflict
	case connect.CodeUnavailable, connect.CodeResourceExhausted:
		return http.StatusServiceUnavailable
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	case connect.CodeCanceled, connect.CodeUnknown, connect.CodeAlreadyExists, connect.CodeUnimplemented, connect.CodeInternal, connect.CodeDataLoss:
	}
	return http.StatusInternalServerError
}

// showError answers with a page about an error.
func (d *Dashboard) showError(w http.ResponseWriter, a *ask, err error) {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError && a.Context().Err() == nil {
		d.opts.Log.Error("page not made", "path", a.URL.Path, "caller", a.session.id.Name, "error", err)
	}
	if a.Header.Get("Accept") == "text/event-stream" {
		http.Error(w, p.Message, p.Status)
		return
	}
	out := d.page(a)
	out.Title = p.Title
	out.Body, err = d.pages.render("error.html", p)
	if err != nil {
		http.Error(w, p.Message, p.Status)
		return
	}
	d.pages.write(w, p.Status, "page.html", out, d.opts.Log)
}

func notFound(what, name string) error {
	return &engine.OpError{Kind: engine.NotFound, Message: fmt.Sprintf("there is no %s %q", what, name)}
}

func refused(format string, args ...any) error {
	return &engine.OpError{Kind: engine.Refused, Message: fmt.Sprintf(format, args...)}
}
