package entrance

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoIsLetIn(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	d, path, err := New(Options{
		Host: "127.0.0.1:8080", Name: "page", Command: "spore page", First: "/first", Random: bytes.NewReader(make([]byte, tokenBytes)),
		Methods: []string{http.MethodGet},
	}, inner)
	require.NoError(t, err)
	require.Equal(t, "/00000000000000000000000000000000", path)
	const cookie = "page-8080=00000000000000000000000000000000"
	for name, c := range map[string]struct {
		host, method, path, cookie, site string
		want                             int
	}{
		"with the cookie":               {path: "/", cookie: cookie, want: http.StatusTeapot},
		"with the cookie, of the page":  {path: "/", cookie: cookie, site: "same-origin", want: http.StatusTeapot},
		"with the address":              {path: path, want: http.StatusSeeOther},
		"with nothing":                  {path: "/", want: http.StatusForbidden},
		"with a part of the address":    {path: path[:10], want: http.StatusForbidden},
		"with another cookie":           {path: "/", cookie: cookie[:len(cookie)-1] + "1", want: http.StatusForbidden},
		"with the cookie of a port":     {path: "/", cookie: "page-8081=00000000000000000000000000000000", want: http.StatusForbidden},
		"from a page of another port":   {path: "/", cookie: cookie, site: "same-site", want: http.StatusForbidden},
		"from a page of the web":        {path: "/", cookie: cookie, site: "cross-site", want: http.StatusForbidden},
		"by a name that leads here":     {host: "evil.example:8080", path: "/", cookie: cookie, want: http.StatusMisdirectedRequest},
		"by such a name, the address":   {host: "evil.example:8080", path: path, want: http.StatusMisdirectedRequest},
		"to change something":           {method: http.MethodPost, path: "/", cookie: cookie, want: http.StatusMethodNotAllowed},
		"to change something, a secret": {method: http.MethodPost, path: path, want: http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			method, host := c.method, c.host
			if method == "" {
				method = http.MethodGet
			}
			if host == "" {
				host = "127.0.0.1:8080"
			}
			r := httptest.NewRequest(method, "http://"+host+c.path, nil)
			if c.cookie != "" {
				r.Header.Set("Cookie", c.cookie)
			}
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			require.Equal(t, c.want, w.Code)
			if c.want != http.StatusTeapot && c.want != http.StatusSeeOther {
				require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
				require.Contains(t, w.Body.String(), "<h1>")
			}
			if c.want == http.StatusForbidden {
				require.Contains(t, w.Body.String(), "pen the address that spore page has printed", "it says what to do")
			}
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			if c.want != http.StatusSeeOther {
				require.Empty(t, w.Header().Get("Set-Cookie"))
				return
			}
			require.Equal(t, "/first", w.Header().Get("Location"))
			require.Equal(t, cookie+"; Path=/; HttpOnly; SameSite=Strict", w.Header().Get("Set-Cookie"))
		})
	}
}

func TestOnlyAPageOfTheHostChangesSomething(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	d, path, err := New(Options{
		Host: "127.0.0.1:8080", Name: "page", Command: "spore page", First: "/first", Random: bytes.NewReader(make([]byte, tokenBytes)),
		Methods: []string{http.MethodGet, http.MethodPost},
	}, inner)
	require.NoError(t, err)
	const cookie = "page-8080=00000000000000000000000000000000"
	for name, c := range map[string]struct {
		method, path, cookie, origin, site string
		want                               int
	}{
		"a form of the page":             {http.MethodPost, "/x", cookie, "http://127.0.0.1:8080", "same-origin", http.StatusTeapot},
		"of a browser that says no site": {http.MethodPost, "/x", cookie, "http://127.0.0.1:8080", "", http.StatusTeapot},
		"without the cookie":             {http.MethodPost, "/x", "", "http://127.0.0.1:8080", "same-origin", http.StatusForbidden},
		"of another port":                {http.MethodPost, "/x", cookie, "http://127.0.0.1:8081", "same-site", http.StatusForbidden},
		"of another port, unsaid":        {http.MethodPost, "/x", cookie, "http://127.0.0.1:8081", "", http.StatusForbidden},
		"of the web":                     {http.MethodPost, "/x", cookie, "https://evil.example", "cross-site", http.StatusForbidden},
		"of a page without an origin":    {http.MethodPost, "/x", cookie, "null", "", http.StatusForbidden},
		"of nobody":                      {http.MethodPost, "/x", cookie, "", "", http.StatusForbidden},
		"with the address as its path":   {http.MethodPost, path, "", "http://127.0.0.1:8080", "", http.StatusForbidden},
		"what is for reading":            {http.MethodGet, "/x", cookie, "", "", http.StatusTeapot},
		"by another method":              {http.MethodPut, "/x", cookie, "http://127.0.0.1:8080", "same-origin", http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://127.0.0.1:8080"+c.path, nil)
			for header, value := range map[string]string{"Cookie": c.cookie, "Origin": c.origin, "Sec-Fetch-Site": c.site} {
				if value != "" {
					r.Header.Set(header, value)
				}
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			require.Equal(t, c.want, w.Code)
			require.Empty(t, w.Header().Get("Set-Cookie"))
		})
	}
}

func TestADoorWithoutChanceIsNone(t *testing.T) {
	_, _, err := New(Options{Random: bytes.NewReader(nil)}, http.NotFoundHandler())
	require.ErrorContains(t, err, "make the secret of the address")
}
