package api

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// ClientFor returns a client within this process for somebody who is known by other means than the certificate of a connection, such as the session of a browser
// that he logged in with his certificate. What it asks passes the same gate as calls from outside: his role is checked, and what he changes is written down with his
// name; a stream ends when the certificate by which he became known is revoked.
func (a *API) ClientFor(c pki.Credential) apiv1connect.ApiServiceClient {
	path, handler := apiv1connect.NewApiServiceHandler(a.service(), a.HandlerOptions()...)
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	return apiv1connect.NewApiServiceClient(&http.Client{Transport: inProcess{mux, caller{Credential: c}}}, "https://setpoint.internal")
}

// inProcess carries requests to a handler without a connection.
type inProcess struct {
	handler http.Handler
	caller  caller
}

// RoundTrip implements http.RoundTripper. The handler runs until it has answered all, or the body of its answer is closed.
func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.WithValue(req.Context(), callerKey{}, t.caller))
	read, write := io.Pipe()
	answer := &answerWriter{header: make(http.Header), body: write, begun: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.handler.ServeHTTP(answer, req.WithContext(ctx))
		answer.WriteHeader(http.StatusOK)
		_ = write.Close() // it never fails
		if req.Body != nil {
			req.Body.Close()
		}
	}()
	end := func() {
		cancel()
		_ = read.Close() // it never fails
		<-ended
	}
	select {
	case <-answer.begun:
	case <-ctx.Done():
		err := ctx.Err()
		end()
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(answer.status), StatusCode: answer.status, Proto: "HTTP/2.0", ProtoMajor: 2, Header: answer.sent, Trailer: make(http.Header),
		Body: answerBody{read, end}, ContentLength: -1, Request: req,
	}, nil
}

// answerWriter writes an answer into a pipe.
type answerWriter struct {
	header http.Header
	body   *io.PipeWriter
	begin  sync.Once
	begun  chan struct{} // closed once status and sent are there
	status int
	sent   http.Header
}

// Header implements http.ResponseWriter.
func (w *answerWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Only the first call counts.
func (w *answerWriter) WriteHeader(status int) {
	w.begin.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

// Write implements http.ResponseWriter.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher: what is written is there at once.
func (w *answerWriter) Flush() { w.WriteHeader(http.StatusOK) }

// answerBody is the body of an answer; closing it ends the handler.
type answerBody struct {
	*io.PipeReader
	end func()
}

// Close ends the handler and waits for it.
func (b answerBody) Close() error {
	b.end()
	return nil
}
