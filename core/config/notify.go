package config

import (
	"fmt"
	"net/url"
	slash "path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// The kinds of sink.
const (
	NotifyAlertmanager = "alertmanager"
	NotifyWebhook      = "webhook"
	NotifyExec         = "exec"
)

// Notify is a sink: how people are told of what waits for too long.
type Notify struct {
	Kind string // NotifyAlertmanager, NotifyWebhook or NotifyExec
	Name string // default: the kind

	After time.Duration         // how long something has to wait; default 5 minutes
	Codes []string              // patterns of codes that are told; none: all
	Jobs  []string              // patterns of jobs of which is told, and of nothing else; none: everything
	Code  map[string]NotifyCode // what is different about single codes

	Timeout time.Duration // of one delivery; default 10 seconds, of a program 30

	URLs       []string          // of alertmanager
	Labels     map[string]string // of alertmanager: added to each alert
	Resend     time.Duration     // of alertmanager: how often what still waits is said again; default 1 minute
	URL        string            // of webhook
	URLFile    string            // of webhook: a file with its address
	SecretFile string            // of webhook: a file with what requests are signed with; "": they are not
	BearerFile string            // of both: a file with a token that is sent along; "": none
	TLS        NotifyTLS         // of both

	Command []string          // of exec
	Env     map[string]string // of exec
}

// NotifyTLS are files for calls of a sink: the authority that is trusted, and a certificate with its key to show.
type NotifyTLS struct {
	CA   string
	Cert string
	Key  string
}

// NotifyCode is what is different about one code.
type NotifyCode struct {
	After  time.Duration // default: that of the sink
	Ignore bool          // nobody is told
}

// Bounds of what sinks take.
const (
	minResend  = 10 * time.Second
	maxTimeout = 5 * time.Minute
)

func (r *reader) notify(b hcltext.Block) {
	n := Notify{Kind: b.Label, Name: b.Label, After: 5 * time.Minute, Timeout: 10 * time.Second, Resend: time.Minute, Code: map[string]NotifyCode{}}
	fields := hcltext.Fields{
		Attributes: attributes{
			"name":    hcltext.Set(hcltext.String, &n.Name),
			"after":   hcltext.Set(hcltext.Duration, &n.After),
			"codes":   hcltext.Set(hcltext.Strings, &n.Codes),
			"jobs":    hcltext.Set(hcltext.Strings, &n.Jobs),
			"timeout": hcltext.Set(hcltext.Duration, &n.Timeout),
		},
		Blocks: blocks{"code": {Label: "code", Repeated: true, Read: func(b hcltext.Block) { r.notifyCode(b, &n) }}},
	}
	switch n.Kind {
	case NotifyAlertmanager:
		fields.Attributes["urls"] = hcltext.Set(hcltext.Strings, &n.URLs)
		fields.Attributes["labels"] = hcltext.Set(hcltext.StringMap, &n.Labels)
		fields.Attributes["resend"] = hcltext.Set(hcltext.Duration, &n.Resend)
	case NotifyWebhook:
		fields.Attributes["url"] = hcltext.Set(hcltext.String, &n.URL)
		fields.Attributes["url_file"] = hcltext.Set(path, &n.URLFile)
		fields.Attributes["secret_file"] = hcltext.Set(path, &n.SecretFile)
	case NotifyExec:
		n.Timeout = 30 * time.Second
		fields.Attributes["command"] = hcltext.Set(hcltext.Strings, &n.Command)
		fields.Attributes["env"] = hcltext.Set(hcltext.StringMap, &n.Env)
	default:
		r.Fail(b.Path, b.Named, "Unknown sink", unknownWord(n.Kind, NotifyAlertmanager, NotifyWebhook, NotifyExec))
		return
	}
	if n.Kind != NotifyExec {
		fields.Attributes["bearer_file"] = hcltext.Set(path, &n.BearerFile)
		fields.Blocks["tls"] = r.section(attributes{
			"ca": hcltext.Set(path, &n.TLS.CA), "cert": hcltext.Set(path, &n.TLS.Cert), "key": hcltext.Set(path, &n.TLS.Key),
		})
	}
	r.Body(b.Body, b.Path, b.At, fields)
	r.config.Notify = append(r.config.Notify, n)
	r.sinks = append(r.sinks, b.Path)
}

func (r *reader) notifyCode(b hcltext.Block, n *Notify) {
	c := NotifyCode{After: -1}
	r.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: attributes{
		"after":  hcltext.Set(hcltext.Duration, &c.After),
		"ignore": hcltext.Set(hcltext.Bool, &c.Ignore),
	}})
	n.Code[b.Label] = c
}

// checkNotify checks sinks, and fills in what codes take from them.
func (r *reader) checkNotify(sinks []Notify) {
	for i := range sinks {
		n, at := &sinks[i], r.sinks[i]
		r.name(at+".name", n.Name, cluster.ValidateName)
		if slices.ContainsFunc(sinks[:i], func(o Notify) bool { return o.Name == n.Name }) {
			r.wrong(at+".name", "Name given twice", fmt.Sprintf("There is a sink %q already; say name = \"…\" to tell them apart.", n.Name))
		}
		if n.After < 0 {
			r.wrong(at+".after", "Negative duration", fmt.Sprintf("It is %s; it cannot be less than 0.", n.After))
		}
		r.patterns(at+".codes", n.Codes)
		r.patterns(at+".jobs", n.Jobs)
		for code, c := range n.Code {
			if c.After < 0 {
				c.After = n.After
				n.Code[code] = c
			}
		}
		if n.Timeout <= 0 || n.Timeout > maxTimeout {
			r.wrong(at+".timeout", "Duration out of range", fmt.Sprintf("It is %s; it must be more than 0 and at most %s.", n.Timeout, maxTimeout))
		}
		switch n.Kind {
		case NotifyAlertmanager:
			r.checkAlertmanager(at, n)
		case NotifyWebhook:
			r.checkWebhook(at, n)
		case NotifyExec:
			r.checkProgram(at, n)
		}
		switch {
		case n.TLS.Cert != "" && n.TLS.Key == "":
			r.wrong(at+".tls.cert", "Certificate without a key", "The attribute \"key\" names the file that has it.")
		case n.TLS.Cert == "" && n.TLS.Key != "":
			r.wrong(at+".tls.key", "Key without a certificate", "The attribute \"cert\" names the file that has it.")
		}
	}
}

func (r *reader) patterns(at string, patterns []string) {
	for i, p := range patterns {
		if _, err := slash.Match(p, ""); err != nil || p == "" {
			r.wrong(fmt.Sprintf("%s[%d]", at, i), "Not a pattern", fmt.Sprintf("%q must be a name, in which * stands for any characters.", p))
		}
	}
}

// ownLabels are those that an alert has already.
var ownLabels = []string{"alertname", "code", "source", "detail", "cluster"}

// labelName is what Prometheus takes for the name of a label (prometheus.io/docs/concepts/data_model).
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (r *reader) checkAlertmanager(at string, n *Notify) {
	if len(n.URLs) == 0 {
		r.wrong(at+".urls", "No Alertmanager", "The attribute \"urls\" says where they listen: urls = [\"http://alertmanager:9093\"].")
	}
	for i, u := range n.URLs {
		r.url(fmt.Sprintf("%s.urls[%d]", at, i), u)
	}
	for name := range n.Labels {
		switch {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			r.wrong(hcltext.Keyed(at+".labels", name), "Invalid label", fmt.Sprintf("%q must be letters, digits and underscores, and not begin with a digit or two underscores.", name))
		case slices.Contains(ownLabels, name):
			r.wrong(hcltext.Keyed(at+".labels", name), "Label that alerts have", fmt.Sprintf("Each alert says %q itself.", name))
		}
	}
	if n.Resend < minResend {
		r.wrong(at+".resend", "Duration too short", fmt.Sprintf("It is %s; it must be at least %s.", n.Resend, minResend))
	}
}

func (r *reader) checkWebhook(at string, n *Notify) {
	switch {
	case n.URL == "" && n.URLFile == "":
		r.wrong(at+".url", "No address", "The attribute \"url\" says what is called, or \"url_file\" in which file that is.")
	case n.URL != "" && n.URLFile != "":
		r.wrong(at+".url_file", "Address given twice", "There is \"url\" already.")
	case n.URL != "":
		r.url(at+".url", n.URL)
	}
}

func (r *reader) checkProgram(at string, n *Notify) {
	if len(n.Command) == 0 || !filepath.IsAbs(n.Command[0]) {
		r.wrong(at+".command", "No program", "The attribute \"command\" begins with the absolute path of a program: command = [\"/usr/local/bin/tell\", \"--now\"].")
	}
	for key := range n.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(n.Env[key], 0) {
			r.wrong(hcltext.Keyed(at+".env", key), "Invalid variable", "A name is not empty and has no =, and neither name nor value has a NUL character.")
		}
	}
}

// url checks an address. It is not shown: it may hold a secret.
func (r *reader) url(at, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		r.wrong(at, "Not an address", "It must be like https://host:443/path.")
	case u.User != nil:
		r.wrong(at, "Password in an address", "This file is no place for one: use \"bearer_file\", or \"url_file\" of a webhook.")
	}
}
