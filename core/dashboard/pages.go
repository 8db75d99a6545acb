package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"sync"

	"github.com/hashicorp/go-hclog"
)

//go:embed templates
var templates embed.FS

// pages are the templates, parsed when somebody looks for the first time: most servers have nobody who does.
type pages struct {
	all func() (*template.Template, error)
}

func newPages() *pages {
	return &pages{all: sync.OnceValues(func() (*template.Template, error) {
		all, err := template.New("").Funcs(functions()).ParseFS(templates, "templates/*.html")
		if err != nil {
			return nil, fmt.Errorf("read the dashboard's templates: %w", err)
		}
		return all, nil
	})}
}

// render returns what a template makes of data.
func (p *pages) render(name string, data any) (template.HTML, error) {
	all, err := p.all()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := all.ExecuteTemplate(&out, name, data); err != nil {
		return "", fmt.Errorf("make a page: %w", err)
	}
	return template.HTML(out.String()), nil
}

// write answers with a page of its own.
func (p *pages) write(w http.ResponseWriter, status int, name string, data any, log hclog.Logger) {
	text, err := p.render(name, data)
	if err != nil {
		log.Error("page not made", "page", name, "error", err)
		http.Error(w, "the server has a bug here; its log has the details", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
