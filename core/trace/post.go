package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/core/internal/outward"
)

// Export says where spans go, and how.
type Export struct {
	Endpoint    string // URL, to which /v1/traces is added
	HeadersFile string // lines NAME: VALUE to send along; "": none
	CA          string // file with the certificates that are trusted; "": those of the system
	Cert        string // file with a certificate to show, and Key with its key; "": none
	Key         string
	Timeout     time.Duration // of one export
}

// path is where traces are taken (opentelemetry.io/docs/specs/otlp, OTLP/HTTP request).
const path = "/v1/traces"

// exportError is why an export failed. Its text has no headers, and of the address no more than the host.
type exportError struct {
	text  string
	again bool          // the same may work later
	after time.Duration // for which the other side wants to be left alone; 0: it did not say
}

func (e *exportError) Error() string { return e.text }

// poster posts spans. Owner: the goroutine of Run.
type poster struct {
	Export
	client *http.Client // nil: the next export makes one, with what the files have then
	made   time.Time
}

// clientLife is for how long files of certificates are not looked at again. After a failure they are.
const clientLife = 10 * time.Minute

func newPoster(e Export) *poster { return &poster{Export: e} }

func (p *poster) close() {
	if p.client != nil {
		p.client.CloseIdleConnections()
		p.client = nil
	}
}

// post sends a request, and returns how many of its spans the other side did not take.
func (p *poster) post(ctx context.Context, m *collectorpb.ExportTraceServiceRequest) (rejected int64, failed *exportError) {
	body, err := proto.Marshal(m)
	if err != nil {
		return 0, &exportError{text: err.Error()} // it would fail again, and so would all that waits behind it
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	res, err := p.send(ctx, body)
	if err != nil {
		p.close()
		return 0, &exportError{text: outward.WithoutURL(err).Error(), again: true}
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what it says besides is for people
	if res.StatusCode/100 != 2 {
		p.close()
		return 0, &exportError{text: "answered " + res.Status, again: mayWorkLater(res.StatusCode), after: outward.RetryAfter(res.Header)}
	}
	var answer collectorpb.ExportTraceServiceResponse
	if strings.HasPrefix(res.Header.Get("Content-Type"), contentType) && proto.Unmarshal(said, &answer) == nil {
		rejected = answer.GetPartialSuccess().GetRejectedSpans()
	}
	return max(rejected, 0), nil
}

const contentType = "application/x-protobuf"

func (p *poster) send(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target(p.Endpoint), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address cannot be called")
	}
	if req.Header, err = headers(p.HeadersFile); err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "setpoint")
	if time.Since(p.made) > clientLife {
		p.close()
	}
	if p.client == nil {
		files := outward.Files{CA: p.CA, Cert: p.Cert, Key: p.Key}
		if p.client, err = files.Client(&http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute}); err != nil {
			return nil, err
		}
		p.made = time.Now()
	}
	return p.client.Do(req)
}

// target returns where traces are posted to. An address that says so itself is taken as it is.
func target(endpoint string) string {
	endpoint = strings.TrimRight(endpoint, "/")
	if strings.HasSuffix(endpoint, path) {
		return endpoint
	}
	return endpoint + path
}

// maxHeadersFile is how much of a file with headers is read.
const maxHeadersFile = 64 << 10

// headers reads a file with a header in each line. Its errors never have a value.
func headers(file string) (http.Header, error) {
	out := http.Header{}
	if file == "" {
		return out, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHeadersFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("line %d of %s is not NAME: VALUE", n, file)
		}
		out.Add(name, strings.TrimSpace(value))
	}
	return out, nil
}

// mayWorkLater reports whether the same spans may be taken later (opentelemetry.io/docs/specs/otlp, retryable response codes). Without a right, which somebody gives,
// or at a wrong address, it is no use to keep them.
func mayWorkLater(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
