package dashboard

import (
	"crypto/subtle"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"time"
)

// maxFormBytes limits what a browser may post.
const maxFormBytes = 64 << 10

//go:embed assets
var assets embed.FS

// routes returns the handler of everything.
func (d *Dashboard) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", d.getLogin)
	mux.HandleFunc("POST /login", d.postLogin)
	mux.HandleFunc("POST /logout", d.posted(d.postLogout))
	mux.Handle("GET /assets/", asset())
	for pattern, make := range d.views() {
		mux.HandleFunc("GET "+pattern, d.shown(make))
	}
	for _, on := range []string{"nodes", "jobs"} {
		mux.HandleFunc("GET /"+on+"/{name}/do/{action}", d.shown(d.previewView))
		mux.HandleFunc("POST /"+on+"/{name}/do/{action}", d.posted(d.carryOut))
	}
	// Browsers say where a request comes from; what another site sends is refused before anything looks at it.
	return secured(http.NewCrossOriginProtection().Handler(mux))
}

// secured sets what keeps a page to what it brings along: its scripts, styles and pictures are files of this server, it cannot be framed, and it is kept nowhere.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "+
			"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types setpoint")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		next.ServeHTTP(w, r)
	})
}

// asset serves what is the same for everybody. A browser asks each time whether it has changed, since a newer server has other pages.
func asset() http.Handler {
	sub, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	files := http.StripPrefix("/assets/", http.FileServerFS(sub))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/assets/" {
			http.NotFound(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})
}

// shown serves a view to who is logged in: as a page, or, to a page that asks for events, as what changes of it.
func (d *Dashboard) shown(make func(*ask) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, cookie := d.sessionOf(r)
		live := r.Header.Get("Accept") == "text/event-stream"
		switch {
		case s == nil && live:
			http.Error(w, "the session has ended", http.StatusUnauthorized)
			return
		case s == nil:
			d.refuseStranger(w, r, cookie)
			return
		}
		a := &ask{Request: r, session: s, dashboard: d}
		v, err := make(a)
		if err != nil {
			d.showError(w, a, err)
			return
		}
		if live {
			d.follow(w, a, v)
			return
		}
		d.showView(w, a, v)
	}
}

// refuseStranger sends who is not logged in to where he can be. A browser that was led here by another site leaves the cookie out, and has it once the page is asked
// for by a page of this site.
func (d *Dashboard) refuseStranger(w http.ResponseWriter, r *http.Request, cookie string) {
	page := loginPage{Ended: cookie != "", Again: cookie == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site"}
	d.showLogin(w, http.StatusUnauthorized, page)
}

// errForm is a form that does not carry what the session's pages carry.
var errForm = errors.New("this form is not of a page of this session; load the page again")

// posted serves what a form of a page asks for.
func (d *Dashboard) posted(do func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, cookie := d.sessionOf(r)
		if s == nil {
			d.refuseStranger(w, r, cookie)
			return
		}
		if subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(s.form)) != 1 {
			d.showError(w, &ask{Request: r, session: s, dashboard: d}, errForm)
			return
		}
		do(w, r, s)
	}
}

// writeBy gives an answer so long to be taken from now on; a browser that takes nothing for longer is cut.
func (d *Dashboard) writeBy(w http.ResponseWriter) error {
	return http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d.opts.Stall))
}
