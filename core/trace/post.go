package trace

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
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

// shown returns as much of the address as anybody may see.
func (p *poster) shown() string {
	u, err := url.Parse(p.Endpoint)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Scheme + "://" + u.Host
}

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
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		return 0, &exportError{text: err.Error(), again: true}
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what it says besides is for people
	if res.StatusCode/100 != 2 {
		p.close()
		return 0, &exportError{text: "answered " + res.Status, again: mayWorkLater(res.StatusCode), after: retryAfter(res.Header)}
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
		if p.client, err = newClient(p.Export); err != nil {
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

func newClient(e Export) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.CA != "" {
		pem, err := os.ReadFile(e.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", e.CA)
		}
	}
	if e.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, MaxIdleConns: 1, IdleConnTimeout: time.Minute},
		// What is sent along for one is not passed on to another.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
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

func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
