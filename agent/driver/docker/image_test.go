package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

// registryServer is a registry with one image, "free" and behind a password "locked", that has nothing to run.
type registryServer struct {
	mu    sync.Mutex
	pulls map[string]int // how often it was asked which image a name stands for
	blobs map[string][]byte
	root  string // digest of the manifest
}

func newRegistry(t *testing.T) *registryServer {
	t.Helper()
	r := &registryServer{pulls: make(map[string]int), blobs: make(map[string][]byte)}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "empty", Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [%q]}}`, r.add(layer.Bytes()))
	type blob struct {
		MediaType string `json:"mediaType"`
		Size      int    `json:"size"`
		Digest    string `json:"digest"`
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
		"config": blob{"application/vnd.docker.container.image.v1+json", len(config), r.add([]byte(config))},
		"layers": []blob{{"application/vnd.docker.image.rootfs.diff.tar", layer.Len(), r.add(layer.Bytes())}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.root = r.add(manifest)
	return r
}

func (r *registryServer) add(data []byte) string {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	r.blobs[digest] = data
	return digest
}

func (r *registryServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/") // v2 NAME manifests|blobs REFERENCE
	if user, password, _ := req.BasicAuth(); (len(parts) == 1 || parts[1] == "locked") && (user != "puller" || password != "secret") {
		w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
		if len(parts) > 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	}
	if len(parts) == 1 { // may anybody come?
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	digest := parts[len(parts)-1]
	if len(parts) == 4 && parts[2] == "manifests" && (parts[1] == "free" || parts[1] == "locked") && (digest == "1" || digest == r.root) {
		digest = r.root
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
		w.Header().Set("Docker-Content-Digest", digest)
		if req.Method == http.MethodHead {
			r.mu.Lock()
			r.pulls[parts[1]]++
			r.mu.Unlock()
		}
	}
	data, ok := r.blobs[digest]
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}`)
		return
	}
	_, _ = w.Write(data)
}

// listenInside listens in the engine's network.
func listenInside(t *testing.T) net.Listener {
	t.Helper()
	if os.Getenv(envNetNS) == "" {
		t.Skipf("%s is not set: the registry cannot be where the engine reaches it", envNetNS)
	}
	made := make(chan net.Listener, 1)
	go func() { // its thread ends with it
		defer close(made)
		enter(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Error(err)
			return
		}
		made <- l
	}()
	l := <-made
	if l == nil {
		t.FailNow()
	}
	return l
}

func TestPull(t *testing.T) {
	host := engineHost(t)
	l := listenInside(t)
	registry := newRegistry(t)
	server := &http.Server{Handler: registry}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	defer func() { server.Close(); <-served }()
	at := l.Addr().String()

	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	anybody := open(t, host, t.TempDir())
	somebody, err := New(Options{Dir: t.TempDir(), Host: host, Registries: map[string]Credential{at: {"puller", password}}})
	if err != nil {
		t.Fatal(err)
	}
	defer somebody.engine.Close()
	for _, c := range []struct {
		name, image, pull string
		d                 *Driver
		refused           string // "": the image came, and has nothing to run
		pulls             int
	}{
		{"never", "free:1", pullNever, somebody, `pull is "never"`, 0},
		{"missing", "free:1", pullMissing, somebody, "", 1},
		{"missing, again", "free:1", pullMissing, somebody, "", 1},
		{"always", "free:1", pullAlways, somebody, "", 2},
		{"never, but there", "free:1", pullNever, somebody, "", 2},
		{"unknown", "free:2", pullMissing, somebody, "manifest unknown", 2},
		{"who are you", "locked:1", pullMissing, anybody, "no basic auth credentials", 0},
		{"with a password", "locked:1", pullMissing, somebody, "", 1},
	} {
		spec := driver.Spec{TaskID: "job/1/1", Settings: map[string]string{"image": at + "/" + c.image, "pull": c.pull}}
		_, err := c.d.Start(t.Context(), spec)
		var refused *driver.RejectedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: start returned %v", c.name, err)
			continue
		}
		code, words := driver.RejectNoImage, c.refused
		if c.refused == "" {
			code, words = driver.RejectNoCommand, "says no command"
		}
		if refused.Code != code || !strings.Contains(refused.Reason, words) {
			t.Errorf("%s: refused with %s, %s; want %s, %q", c.name, refused.Code, refused.Reason, code, words)
		}
		name, _, _ := strings.Cut(c.image, ":")
		registry.mu.Lock()
		if got := registry.pulls[name]; got != c.pulls {
			t.Errorf("%s: pulled %d times by now, want %d", c.name, got, c.pulls)
		}
		registry.mu.Unlock()
	}
	for _, image := range []string{"free:1", "locked:1"} {
		if _, err := somebody.engine.ImageRemove(t.Context(), at+"/"+image, client.ImageRemoveOptions{}); err != nil {
			t.Error(err)
		}
	}
	// A registry that does not answer may do so later.
	server.Close()
	spec := driver.Spec{TaskID: "job/1/1", Settings: map[string]string{"image": at + "/free:1"}}
	var refused *driver.RejectedError
	if _, err := somebody.Start(t.Context(), spec); err == nil || errors.As(err, &refused) {
		t.Errorf("without a registry start returned %v", err)
	}
}

func TestRegistryOf(t *testing.T) {
	for image, want := range map[string]string{
		"nginx": hub, "nginx:1.27": hub, "library/nginx": hub, "localhost/x": "localhost", "r.example.com/a/b:1": "r.example.com", "r:5000/x": "r:5000",
	} {
		if got := registryOf(image); got != want {
			t.Errorf("%s is of %q, want %q", image, got, want)
		}
	}
}
