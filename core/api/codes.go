package api

import (
	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
)

// Code is what a program decides by when a call was refused: the code of an ErrorDetail. One that was given once keeps its meaning.
type Code string

// The codes. docs/API.md has a row for each.
const (
	CodeInvalid    = Code(engine.Invalid)
	CodeNotFound   = Code(engine.NotFound)
	CodeConflict   = Code(engine.Conflict)
	CodeRefused    = Code(engine.Refused)
	CodeKeyReused  = Code(engine.KeyReused)
	CodeCompacted  = Code("compacted")
	CodeTooSlow    = Code("too_slow")
	CodeNoSpace    = Code("no_space")
	CodeUnknown    = Code("unavailable") // whether it was carried out is not known, or nobody is there to do it
	CodeInternal   = Code("internal")
	CodeNobody     = Code("unauthenticated")
	CodeForbidden  = Code("forbidden")
	CodeNotOffered = Code("not_offered")

	CodeAuditUnavailable = Code("audit_unavailable") // also the stall's

	CodePluginUnavailable = Code("plugin_unavailable")
	CodePluginTimeout     = Code("plugin_timeout")
	CodePluginInvalid     = Code("plugin_invalid")

	CodeCommandNotFound = Code("command_not_found")
	CodeNotExecutable   = Code("not_executable")
)

// Codes returns every code with those of Connect under which it comes.
func Codes() map[Code][]connect.Code {
	return map[Code][]connect.Code{
		CodeInvalid:    {connect.CodeInvalidArgument},
		CodeNotFound:   {connect.CodeNotFound},
		CodeConflict:   {connect.CodeAborted},
		CodeRefused:    {connect.CodeFailedPrecondition},
		CodeKeyReused:  {connect.CodeInvalidArgument},
		CodeCompacted:  {connect.CodeOutOfRange},
		CodeTooSlow:    {connect.CodeResourceExhausted},
		CodeNoSpace:    {connect.CodeResourceExhausted},
		CodeUnknown:    {connect.CodeUnavailable, connect.CodeCanceled, connect.CodeDeadlineExceeded, connect.CodeFailedPrecondition},
		CodeInternal:   {connect.CodeInternal},
		CodeNobody:     {connect.CodeUnauthenticated},
		CodeForbidden:  {connect.CodePermissionDenied},
		CodeNotOffered: {connect.CodeUnimplemented},

		CodeAuditUnavailable: {connect.CodeResourceExhausted},

		CodePluginUnavailable: {connect.CodeAborted},
		CodePluginTimeout:     {connect.CodeAborted},
		CodePluginInvalid:     {connect.CodeAborted},

		CodeCommandNotFound: {connect.CodeFailedPrecondition},
		CodeNotExecutable:   {connect.CodeFailedPrecondition},
	}
}
