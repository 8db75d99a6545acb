package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/hcltext"
)

// Telemetry says what a server tells of what it does to those who trace it; docs/TRACING.md says what that is.
type Telemetry struct {
	Service     string            // service.name of what is told; default setpoint
	Attributes  map[string]string // of the server, beside those that it says itself
	SampleRatio float64           // of the commands that come without a trace, from 0 to 1; default 1
	OTLP        OTLP
}

// OTLP says to whom spans are exported, by the OpenTelemetry protocol over HTTP.
type OTLP struct {
	Endpoint    string        // URL, to which /v1/traces is added; "": nothing is exported
	Insecure    bool          // that others may read and change what is exported is accepted: http to another machine
	HeadersFile string        // lines NAME: VALUE to send along, such as a token; "": none
	Timeout     time.Duration // of one export; default 10 seconds
	TLS         OTLPTLS
}

// OTLPTLS are files for exports: the authority that is trusted, and a certificate with its key to show.
type OTLPTLS struct {
	CA   string
	Cert string
	Key  string
}

func (r *reader) telemetry(b hcltext.Block) {
	t := &r.config.Telemetry
	r.Body(b.Body, b.Path, b.At, hcltext.Fields{
		Attributes: attributes{
			"service_name": hcltext.Set(hcltext.String, &t.Service),
			"attributes":   hcltext.Set(hcltext.StringMap, &t.Attributes),
			"sample_ratio": hcltext.Set(hcltext.Float, &t.SampleRatio),
		},
		Blocks: blocks{"otlp": {Required: true, Read: r.otlp}},
	})
}

func (r *reader) otlp(b hcltext.Block) {
	o := &r.config.Telemetry.OTLP
	r.Body(b.Body, b.Path, b.At, hcltext.Fields{
		Attributes: attributes{
			"endpoint":     hcltext.Set(hcltext.String, &o.Endpoint),
			"insecure":     hcltext.Set(hcltext.Bool, &o.Insecure),
			"headers_file": hcltext.Set(path, &o.HeadersFile),
			"timeout":      hcltext.Set(hcltext.Duration, &o.Timeout),
		},
		Blocks: blocks{"tls": r.section(attributes{
			"ca": hcltext.Set(path, &o.TLS.CA), "cert": hcltext.Set(path, &o.TLS.Cert), "key": hcltext.Set(path, &o.TLS.Key),
		})},
	})
	if o.Endpoint == "" {
		r.wrong(b.Path+".endpoint", "No address", `The attribute "endpoint" says where a collector listens: endpoint = "https://collector:4318".`)
	}
}

// ownAttributes are those that a server says of itself.
var ownAttributes = []string{"service.name", "service.version", "service.instance.id", "setpoint.cluster.id"}

// The limits of what a server says of itself: what is beyond them is more than a name.
const (
	maxAttributes     = 64
	maxAttributeBytes = 256
)

func (r *reader) checkTelemetry(t Telemetry) {
	r.notEmpty("telemetry.service_name", t.Service)
	if !(t.SampleRatio >= 0 && t.SampleRatio <= 1) {
		r.wrong("telemetry.sample_ratio", "Number out of range", fmt.Sprintf("It is %v; it must be between 0, for none, and 1, for all.", t.SampleRatio))
	}
	if n := len(t.Attributes); n > maxAttributes {
		r.wrong("telemetry.attributes", "Too many attributes", fmt.Sprintf("There are %d; the limit is %d.", n, maxAttributes))
	}
	for key, value := range t.Attributes {
		at := hcltext.Keyed("telemetry.attributes", key)
		switch {
		case key == "" || len(key) > maxAttributeBytes || len(value) > maxAttributeBytes:
			r.wrong(at, "Invalid attribute", fmt.Sprintf("A name has 1 to %d bytes, and a value no more.", maxAttributeBytes))
		case slices.Contains(ownAttributes, key):
			r.wrong(at, "Attribute that the server has", fmt.Sprintf("The server says %q itself; \"service_name\" and \"name\" change what it says.", key))
		}
	}
	if t.OTLP.Endpoint != "" {
		r.checkOTLP(t.OTLP)
	}
}

func (r *reader) checkOTLP(o OTLP) {
	const at = "telemetry.otlp"
	if o.Timeout <= 0 || o.Timeout > maxTimeout {
		r.wrong(at+".timeout", "Duration out of range", fmt.Sprintf("It is %s; it must be more than 0 and at most %s.", o.Timeout, maxTimeout))
	}
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		r.wrong(at+".endpoint", "Not an address", "It must be like https://collector:4318.")
	case u.User != nil:
		r.wrong(at+".endpoint", "Password in an address", `This file is no place for one: "headers_file" names a file that has it.`)
	case u.Scheme == "http" && !loopback(u.Hostname()) && !o.Insecure:
		r.wrong(at+".endpoint", "Without TLS to another machine", "Whoever is between could read and change what is exported: use https, or say that this is meant with insecure = true.")
	case u.Scheme == "http" && o.TLS != OTLPTLS{}:
		r.wrong(at+".tls", "TLS for an address without", "The endpoint begins with http:, so nothing of this would be used.")
	}
	switch {
	case o.TLS.Cert != "" && o.TLS.Key == "":
		r.wrong(at+".tls.cert", "Certificate without a key", "The attribute \"key\" names the file that has it.")
	case o.TLS.Cert == "" && o.TLS.Key != "":
		r.wrong(at+".tls.key", "Key without a certificate", "The attribute \"cert\" names the file that has it.")
	}
}

// loopback reports whether a host is this machine, whatever a resolver says.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
