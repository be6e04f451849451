// Package entrance lets one browser into what a command serves on the operator's own machine: whoever was told the
// address. Others on this machine can reach the port, and pages of the web can have a browser ask it.
package entrance

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"time"
)

// tokenBytes is how much chance is in the address.
const tokenBytes = 16

// Options say who is let in where.
type Options struct {
	// Host is the address with the port at which the browser asks.
	Host string
	// Name is what the cookie is called, before the port.
	Name string
	// Command is what printed the address, for those who come without it.
	Command string
	// First is the path to which a browser is sent that comes in.
	First string
	// Random gives what nobody guesses.
	Random io.Reader
	// Methods are those that may be asked. What is not GET has to come from a page of the Host.
	Methods []string
}

// Door stands before a handler.
type Door struct {
	Options
	token string
	inner http.Handler
}

// New returns the door of a handler, and the path at which a browser is let in.
//
// The path has a secret. A browser that asks for it gets a cookie and is sent to the first page; who has neither is
// refused. Others know no secret, their requests are without the cookie (SameSite=Strict), and a name of theirs that
// leads here is not the Host.
func New(o Options, inner http.Handler) (d *Door, path string, err error) {
	secret := make([]byte, tokenBytes)
	if _, err := io.ReadFull(o.Random, secret); err != nil {
		return nil, "", fmt.Errorf("make the secret of the address: %w", err)
	}
	d = &Door{o, hex.EncodeToString(secret), inner}
	return d, "/" + d.token, nil
}

// cookie has the port in its name: browsers keep one set of cookies for all ports of an address.
func (d *Door) cookie() string {
	_, port, _ := net.SplitHostPort(d.Host)
	return d.Name + "-" + port
}

func (d *Door) known(given string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(d.token)) == 1
}

// ServeHTTP answers a browser.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'") // A page says for itself what it needs.
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	switch {
	case r.Host != d.Host:
		refuse(w, http.StatusMisdirectedRequest, "This is not the address of the page", "Open the address that "+d.Command+" has printed.")
	case !d.may(r.Method):
		refuse(w, http.StatusMethodNotAllowed, "The page is for reading", "Nothing was changed.")
	case r.Method == http.MethodGet && len(r.URL.Path) > 1 && d.known(r.URL.Path[1:]):
		http.SetCookie(w, &http.Cookie{Name: d.cookie(), Value: d.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, d.First, http.StatusSeeOther)
	case foreign(r):
		refuse(w, http.StatusForbidden, "Another page asks for it", "Nothing was shown or changed. "+
			"If you came by a link, open the address that "+d.Command+" has printed instead.")
	case !d.own(r):
		refuse(w, http.StatusForbidden, "Another page asks for it", "Nothing was changed: only the page itself changes something.")
	case !d.has(r):
		refuse(w, http.StatusForbidden, "This browser was not let in", "Open the address that "+d.Command+" has printed. "+
			"Each start prints another one; what was open before is let in no more.")
	default:
		d.inner.ServeHTTP(w, r)
	}
}

// refuse says in a page why nothing is there, and what to do.
func refuse(w http.ResponseWriter, status int, title, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	title, text = html.EscapeString(title), html.EscapeString(text)
	_, _ = fmt.Fprintf(w, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>%s</title></head>
<body><main><h1>%s</h1><p>%s</p></main></body></html>
`, title, title, text)
}

func (d *Door) may(method string) bool {
	for _, m := range d.Methods {
		if m == method {
			return true
		}
	}
	return false
}

// foreign tells whether another page has the browser ask. Cookies are for all ports of an address: pages of other
// programs on this machine would have it sent, too.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// own tells whether a page of the Host asks for what may change something. Browsers say with each such question whose
// page it is (Fetch, 3.2); who does not is none, and knows no page.
func (d *Door) own(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Origin") == "http://"+d.Host
}

func (d *Door) has(r *http.Request) bool {
	c, err := r.Cookie(d.cookie())
	return err == nil && d.known(c.Value)
}

// Serve answers at a listener until ctx is over.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() }) // it ends what there is
	defer stopped()
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
