package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTelemetry(t *testing.T) {
	file := writeFile(t, "a.hcl", `
telemetry {
  sample_ratio = 0
  otlp {
    endpoint     = "https://collector:4318/otlp"
    headers_file = "headers"
  }
}`)
	want := Telemetry{
		Service: "setpoint", OTLP: OTLP{Endpoint: "https://collector:4318/otlp", HeadersFile: filepath.Join(filepath.Dir(file), "headers"), Timeout: 10 * time.Second},
	}
	if diff := cmp.Diff(want, mustLoad(t, file).Telemetry); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, wrong := range map[string]string{
		"https://collector:4318":          "",
		"https://collector/otlp":          "",
		"http://127.0.0.1:4318":           "",
		"http://[::1]:4318":               "",
		"http://localhost:4318":           "",
		"http://collector:4318":           "Without TLS to another machine",
		"http://127.0.0.1.example.com":    "Without TLS to another machine",
		"https://me:T0K3N@collector:4318": "Password in an address",
		"https://collector?key=T0K3N":     "Not an address",
		"collector:4318":                  "Not an address",
		"grpc://collector:4317":           "Not an address",
		"":                                "No address",
	} {
		c, diags := Load(writeFile(t, "a.hcl", fmt.Sprintf("telemetry {\n  otlp {\n    endpoint = %q\n  }\n}\n", endpoint)))
		switch {
		case wrong == "" && len(diags) > 0:
			t.Errorf("%s: %s", endpoint, written(t, c, diags))
		case wrong != "" && (len(diags) != 1 || diags[0].Summary != wrong || diags[0].Subject.Start.Line < 2):
			t.Errorf("%s: want %q, got %v", endpoint, wrong, diags)
		case strings.Contains(fmt.Sprint(diags), "T0K3N"):
			t.Errorf("%s: %v tells the secret", endpoint, diags)
		}
	}
	if _, diags := Load(writeFile(t, "b.hcl", "telemetry {\n  otlp {\n    endpoint = \"http://collector:4318\"\n    insecure = true\n  }\n}\n")); len(diags) > 0 {
		t.Errorf("what was said to be meant is refused: %v", diags)
	}
	if _, diags := Load(writeFile(t, "c.hcl", "telemetry {\n}\n")); len(diags) != 1 {
		t.Errorf("telemetry that goes nowhere: %v", diags)
	}
}
