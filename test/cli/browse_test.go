package cli

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// browser returns the one of a script, which keeps cookies and trusts any certificate.
func (w *world) browser() (*http.Client, error) {
	if w.client == nil {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, err
		}
		w.client = &http.Client{
			Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		}
	}
	return w.client, nil
}

// cmdPage loads a page with the script's browser and writes it to standard output:
//
//	page URL STATUS
func cmdPage(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: page URL STATUS")
	}
	c, err := worldOf(ts).browser()
	ts.Check(err)
	answered(ts, args[1], func() (*http.Response, error) { return c.Get(args[0]) })
}

// cmdLogin gives a dashboard a code:
//
//	login URL CODE STATUS
func cmdLogin(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: login URL CODE STATUS")
	}
	c, err := worldOf(ts).browser()
	ts.Check(err)
	answered(ts, args[2], func() (*http.Response, error) {
		return c.PostForm(args[0]+"/login", url.Values{"code": {args[1]}, "confirmed": {"yes"}})
	})
}

func answered(ts *testscript.TestScript, status string, ask func() (*http.Response, error)) {
	res, err := ask()
	ts.Check(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	ts.Check(err)
	if got := strconv.Itoa(res.StatusCode); got != status {
		ts.Fatalf("it gave %s, want %s:\n%s", got, status, text)
	}
	_, err = ts.Stdout().Write(text)
	ts.Check(err)
}
