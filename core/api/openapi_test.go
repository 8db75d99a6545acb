package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/openapi"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/test/apiserver"
)

// example is one of the examples beside the .proto files.
type example struct {
	Call, Title string
	Headers     map[string]string
	Request     json.RawMessage
	Status      int
	Response    any
}

func examples(t *testing.T) []example {
	t.Helper()
	text, err := os.ReadFile("../../proto/setpoint/api/v1/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// document is the OpenAPI document, and a compiler of the schemas in it.
func document(t *testing.T) (doc map[string]any, schema func(name string) *jsonschema.Schema) {
	t.Helper()
	if err := json.Unmarshal(openapi.Document, &doc); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("https://setpoint.internal/openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return doc, func(name string) *jsonschema.Schema {
		t.Helper()
		s, err := c.Compile("https://setpoint.internal/openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestOpenAPIIsWhole holds the document to the form of OpenAPI 3.1 as far as it uses it: every reference leads somewhere, every schema compiles, every operation has
// an id of its own, a request and answers; and each call that is no stream is there, with the role and the headers that the server has for it.
func TestOpenAPIIsWhole(t *testing.T) {
	doc, schema := document(t)
	if v := doc["openapi"]; v != "3.1.0" {
		t.Errorf("openapi is %v", v)
	}
	components := doc["components"].(map[string]any)
	for name := range components["schemas"].(map[string]any) {
		schema(name)
	}
	for _, ref := range regexp.MustCompile(`"\$ref": "#/([^"]+)"`).FindAllStringSubmatch(string(openapi.Document), -1) {
		var at any = doc
		for part := range strings.SplitSeq(ref[1], "/") {
			at, _ = at.(map[string]any)[part]
		}
		if at == nil {
			t.Errorf("#/%s is nowhere", ref[1])
		}
	}
	paths := doc["paths"].(map[string]any)
	ids := map[string]bool{}
	services := apiv1.File_setpoint_api_v1_api_proto.Services().ByName("ApiService")
	for i := range services.Methods().Len() {
		m := services.Methods().Get(i)
		path := "/" + apiv1connect.ApiServiceName + "/" + string(m.Name())
		item, ok := paths[path].(map[string]any)
		if streams := m.IsStreamingClient() || m.IsStreamingServer(); ok == streams {
			t.Errorf("%s is described: %t, and a stream: %t", path, ok, streams)
		}
		delete(paths, path)
		for _, op := range item {
			op := op.(map[string]any)
			id := op["operationId"].(string)
			if ids[id] || op["responses"].(map[string]any)["200"] == nil {
				t.Errorf("%s: operation %s is there twice, or has no answer", path, id)
			}
			ids[id] = true
		}
		if post, ok := item["post"].(map[string]any); ok {
			if role := string(api.RoleOf(path)); post["x-role"] != role && (role != "" || post["x-role"] != "none") {
				t.Errorf("%s is described as for %v, and the server lets %q in", path, post["x-role"], role)
			}
			keyed := bytes.Contains(mustJSON(t, post["parameters"]), []byte(api.HeaderKey))
			if client.TakesKey(path) != api.TakesKey(path) {
				t.Errorf("clients send a key with %s: %t, and the server takes one: %t", path, client.TakesKey(path), api.TakesKey(path))
			}
			if keyed != api.TakesKey(path) {
				t.Errorf("%s is described to take a key: %t, and takes one: %t", path, keyed, api.TakesKey(path))
			}
		}
	}
	if len(paths) > 0 {
		t.Errorf("described and not there: %v", slices.Collect(maps.Keys(paths)))
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// caller asks a server as programs without the client do.
type caller struct {
	t    *testing.T
	base string
	http *http.Client
}

func newCaller(t *testing.T, nodes int) *caller {
	t.Helper()
	s, err := apiserver.Start(apiserver.Options{Dir: t.TempDir(), Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := s.Authority().Issue(time.Now(), pki.Identity{Role: pki.RoleAdmin, Name: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: pki.ClientTLS(pki.NewHolder(pair), s.Authority().Certificate()), ForceAttemptHTTP2: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &caller{t, "https://" + s.Addr(), &http.Client{Transport: transport}}
}

func (c *caller) do(method, path string, headers map[string]string, body []byte) (*http.Response, any) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		c.t.Fatalf("%s %s answered %s: %v", method, path, text, err)
	}
	return res, out
}

// TestExamples makes each call of the examples on one server, one after another, and holds what it sends and what comes back to the document and to the example.
func TestExamples(t *testing.T) {
	doc, schema := document(t)
	c := newCaller(t, 3)
	for i, e := range examples(t) {
		path := "/" + apiv1connect.ApiServiceName + "/" + e.Call
		post, ok := doc["paths"].(map[string]any)[path].(map[string]any)["post"].(map[string]any)
		if !ok {
			t.Errorf("%s is not in the document", e.Call)
			continue
		}
		var sent any
		if err := json.Unmarshal(e.Request, &sent); err != nil {
			t.Fatal(err)
		}
		if err := schema(e.Call + "Request").Validate(sent); err != nil {
			t.Errorf("%d %s: the request is not as described: %v", i+1, e.Call, err)
		}
		res, got := c.do(http.MethodPost, path, e.Headers, e.Request)
		if res.StatusCode != e.Status {
			t.Fatalf("%d %s: status %d, want %d: %v", i+1, e.Call, res.StatusCode, e.Status, got)
		}
		form := "Error"
		if e.Status == http.StatusOK {
			form = answerOf(post)
		}
		for what, value := range map[string]any{"answer": got, "example's answer": e.Response} {
			if err := schema(form).Validate(value); err != nil {
				t.Errorf("%d %s: the %s is not as described: %v", i+1, e.Call, what, err)
			}
		}
		if missing := notIn(e.Response, got, ""); missing != "" {
			t.Errorf("%d %s: %s", i+1, e.Call, missing)
		}
	}
}

// answerOf names the schema of an operation's answer.
func answerOf(post map[string]any) string {
	ok := post["responses"].(map[string]any)["200"].(map[string]any)
	ref := ok["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)["$ref"].(string)
	return ref[strings.LastIndex(ref, "/")+1:]
}

// notIn says what of an example an answer does not have; "" if it has all. An answer may have more.
func notIn(want, got any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		have, _ := got.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if missing := notIn(want[k], have[k], at+"."+k); missing != "" {
				return missing
			}
		}
		return ""
	case []any:
		have, _ := got.([]any)
		if len(have) < len(want) {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
		for i := range want {
			if missing := notIn(want[i], have[i], fmt.Sprintf("%s[%d]", at, i)); missing != "" {
				return missing
			}
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}

// TestReadingByGet asks without a body, and is not let change anything so.
func TestReadingByGet(t *testing.T) {
	c := newCaller(t, 2)
	ask := func(call, message string) (*http.Response, error) {
		q := url.Values{"connect": {"v1"}, "encoding": {"json"}, "message": {message}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/"+apiv1connect.ApiServiceName+"/"+call+"?"+q.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.http.Do(req)
	}
	res, err := ask("ListNodes", `{"fields": "name"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(strings.ReplaceAll(string(text), " ", ""), `"nodes":[{"name":"n1"},{"name":"n2"}]`) {
		t.Errorf("got %d %s, %v", res.StatusCode, text, err)
	}
	refused, err := ask("RemoveJob", `{"job": "web"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Body.Close()
	if refused.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a command by GET got %d", refused.StatusCode)
	}
}

// A field that does not exist is refused, as the document says: a misspelled dry_run or if_version would otherwise be a command without it.
func TestFieldThatDoesNotExist(t *testing.T) {
	c := newCaller(t, 1)
	service := "/" + apiv1connect.ApiServiceName + "/"
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		h := map[string]string{"Content-Type": contentType}
		res, got := c.do(http.MethodPost, service+"SetAvailability", h, []byte(`{"nodes": ["n1"], "availability": "pause", "dryRunn": true}`))
		if text, _ := got.(map[string]any)["message"].(string); res.StatusCode != http.StatusBadRequest || !strings.Contains(text, `unknown field "dryRunn"`) {
			t.Errorf("%s: got %d %v", contentType, res.StatusCode, got)
		}
		if res, got := c.do(http.MethodPost, service+"GetNode", h, []byte(`{"node": "n1", "fields": "name"}`)); res.StatusCode != http.StatusOK {
			t.Errorf("%s: without one it got %d %v", contentType, res.StatusCode, got)
		}
	}
}

func TestDocumentIsServed(t *testing.T) {
	c := newCaller(t, 0)
	res, got := c.do(http.MethodGet, "/openapi.json", nil, nil)
	if res.StatusCode != http.StatusOK || got.(map[string]any)["openapi"] != "3.1.0" || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v", res.StatusCode, res.Header)
	}
	if status, _ := serve(t, nil).get("/openapi.json"); status != http.StatusUnauthorized {
		t.Errorf("without a certificate it is %d, want %d", status, http.StatusUnauthorized)
	}
}
