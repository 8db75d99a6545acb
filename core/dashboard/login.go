package dashboard

import (
	"net/http"
	"strings"
)

// cookieName returns the name of the session's cookie. Browsers send cookies to all ports of a host: clusters that share one are told apart by their ids. The prefix has
// browsers take it from this host over TLS only.
func (d *Dashboard) cookieName() string { return "__Host-setpoint-" + d.opts.View().ClusterID }

func (d *Dashboard) setCookie(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: d.cookieName(), Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// sessionOf returns the session of a request and its cookie, or nil.
func (d *Dashboard) sessionOf(r *http.Request) (*session, string) {
	c, err := r.Cookie(d.cookieName())
	if err != nil {
		return nil, ""
	}
	return d.sessions.of(c.Value), c.Value
}

// loginPage is what who is not logged in sees.
type loginPage struct {
	Name    string // of the server
	Code    string // that was given already, while it is to be confirmed
	As      string // who is logged in now
	Refused bool   // the code did not serve
	Ended   bool   // there was a session
	Again   bool   // the browser left out its cookie, since another site led here: load the page once more
}

func (d *Dashboard) showLogin(w http.ResponseWriter, status int, page loginPage) {
	page.Name = d.opts.Name
	d.pages.write(w, status, "login.html", page, d.opts.Log)
}

// getLogin shows where a code is given. The one in the link stays in the browser until the script there posts it.
func (d *Dashboard) getLogin(w http.ResponseWriter, r *http.Request) {
	page := loginPage{}
	if s, _ := d.sessionOf(r); s != nil {
		page.As = s.id.Name
	}
	d.showLogin(w, http.StatusOK, page)
}

// postLogin begins a session. Who is logged in already confirms that he wants another one, so that nobody's link makes him somebody else unnoticed.
func (d *Dashboard) postLogin(w http.ResponseWriter, r *http.Request) {
	code := strings.TrimSpace(r.PostFormValue("code"))
	if _, behind, ok := strings.Cut(code, "#"); ok {
		code = behind // the whole link was pasted
	}
	before, cookie := d.sessionOf(r)
	if before != nil && r.PostFormValue("confirmed") == "" {
		d.showLogin(w, http.StatusOK, loginPage{Code: code, As: before.id.Name})
		return
	}
	next, began, ok := d.sessions.begin(code)
	if !ok {
		d.opts.Log.Debug("dashboard login refused", "remote", r.RemoteAddr)
		d.showLogin(w, http.StatusForbidden, loginPage{Refused: true})
		return
	}
	if before != nil {
		d.sessions.close(cookie)
	}
	d.setCookie(w, next, int(sessionLifetime.Seconds()))
	d.opts.Log.Info("dashboard session begins", "caller", began.id.Name, "role", string(began.id.Role), "remote", r.RemoteAddr)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// postLogout ends the session.
func (d *Dashboard) postLogout(w http.ResponseWriter, r *http.Request, s *session) {
	_, cookie := d.sessionOf(r)
	d.sessions.close(cookie)
	d.setCookie(w, "", -1)
	d.opts.Log.Info("dashboard session ends", "caller", s.id.Name)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
