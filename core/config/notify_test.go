package config

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNotify(t *testing.T) {
	file := writeFile(t, "a.hcl", `
notify "webhook" {
  url         = "https://a.example/x"
  secret_file = "secret"
  after       = "1m"
  jobs        = ["web-*"]
  code "mass_silence" {
    after = "0s"
  }
  code "restart_delay" {
    ignore = true
  }
}
notify "webhook" {
  name     = "chat"
  url_file = "/etc/chat"
}
notify "alertmanager" {
  urls   = ["http://am:9093"]
  labels = { team = "infra" }
}
notify "exec" {
  command = ["/bin/tell"]
}`)
	dir := filepath.Dir(file)
	want := []Notify{
		{
			Kind: "webhook", Name: "webhook", After: time.Minute, Jobs: []string{"web-*"}, Timeout: 10 * time.Second, Resend: time.Minute, URL: "https://a.example/x",
			SecretFile: filepath.Join(dir, "secret"), Code: map[string]NotifyCode{"mass_silence": {}, "restart_delay": {After: time.Minute, Ignore: true}},
		},
		{Kind: "webhook", Name: "chat", After: 5 * time.Minute, Timeout: 10 * time.Second, Resend: time.Minute, URLFile: "/etc/chat", Code: map[string]NotifyCode{}},
		{
			Kind: "alertmanager", Name: "alertmanager", After: 5 * time.Minute, Timeout: 10 * time.Second, Resend: time.Minute, URLs: []string{"http://am:9093"},
			Labels: map[string]string{"team": "infra"}, Code: map[string]NotifyCode{},
		},
		{
			Kind: "exec", Name: "exec", After: 5 * time.Minute, Timeout: 30 * time.Second, Resend: time.Minute, Command: []string{"/bin/tell"}, Code: map[string]NotifyCode{},
		},
	}
	if diff := cmp.Diff(want, mustLoad(t, file).Notify); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
