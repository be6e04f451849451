package metricspage

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/verb"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const host = "127.0.0.1:4711"

// opened is the page of a node that answers as the test says, and its secret.
func opened(t *testing.T, answer func(o nodeapi.Order, take func(machine.Page) error) error) (h http.Handler, token string) {
	t.Helper()
	h, path, err := New(Options{
		Host: host, Random: strings.NewReader("0123456789abcdef"), Check: verb.Row("metrics-page").Check,
		Ask: func(_ context.Context, o nodeapi.Order, take func(machine.Page) error) error { return answer(o, take) },
	})
	require.NoError(t, err)
	return h, path[1:]
}

func ask(h http.Handler, method, path string, change func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, "http://"+host+path, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func with(token string) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "spore-metrics-4711", Value: token}) }
}

// from has the cookie, and a browser that says whose page asks.
func from(token, site string) func(*http.Request) {
	return func(r *http.Request) {
		with(token)(r)
		r.Header.Set("Sec-Fetch-Site", site)
	}
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.Write(&b))
	return b.String()
}

func TestABrowserWithTheAddressSeesThePage(t *testing.T) {
	var asked []nodeapi.Order
	h, token := opened(t, func(o nodeapi.Order, take func(machine.Page) error) error {
		asked = append(asked, o)
		return errors.Join(take(machine.Page{Status: 200, Type: "text/html", Body: []byte("<p>")}), take(machine.Page{Body: []byte("graph")}))
	})
	first := ask(h, "GET", "/"+token, nil)
	require.Equal(t, http.StatusSeeOther, first.StatusCode)
	require.Equal(t, "/vmui/", first.Header.Get("Location"))
	c := first.Cookies()[0]
	require.Equal(t, "spore-metrics-4711="+token+"; Path=/; HttpOnly; SameSite=Strict", c.Raw)

	r := ask(h, "GET", "/vmui/?g0.expr=up", with(token))
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Contains(t, text(t, r), "<p>graph")
	require.Equal(t, "text/html", r.Header.Get("Content-Type"))
	require.Contains(t, r.Header.Get("Content-Security-Policy"), "connect-src 'self'")
	for _, site := range []string{"same-origin", "none"} {
		require.Equal(t, http.StatusSeeOther, ask(h, "GET", "/", from(token, site)).StatusCode, site)
	}
	require.Equal(t, []nodeapi.Order{{Arguments: map[string]string{"path": "/vmui/", "query": "g0.expr=up"}}}, asked)
}

func TestWhoeverDoesNotHaveTheAddressIsRefused(t *testing.T) {
	h, token := opened(t, func(nodeapi.Order, func(machine.Page) error) error {
		t.Error("the node is asked")
		return nil
	})
	other := strings.Repeat("0", len(token))
	for name, c := range map[string]struct {
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"without a cookie":                {"GET", "/vmui/", nil, 403},
		"with another":                    {"GET", "/api/v1/query?query=up", with(other), 403},
		"with an empty one":               {"GET", "/vmui/", with(""), 403},
		"with the cookie of another port": {"GET", "/vmui/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "spore-metrics-1", Value: token}) }, 403},
		"another entrance":                {"GET", "/" + other, nil, 403},
		"a name that leads here":          {"GET", "/" + token, func(r *http.Request) { r.Host = "evil.example:4711" }, 421},
		"a name with the cookie":          {"GET", "/vmui/", func(r *http.Request) { with(token)(r); r.Host = "localhost:4711" }, 421},
		"a page of another port":          {"GET", "/api/v1/query?query=up", from(token, "same-site"), 403},
		"a page of the web":               {"GET", "/api/v1/query?query=up", from(token, "cross-site"), 403},
		"something to write":              {"POST", "/api/v1/query", with(token), 405},
		"something to delete":             {"DELETE", "/vmui/", with(token), 405},
		"samples":                         {"GET", "/api/v1/import/prometheus", with(token), 404},
		"an end of series":                {"GET", "/api/v1/admin/tsdb/delete_series?match[]=up", with(token), 404},
		"flags":                           {"GET", "/flags", with(token), 404},
		"out of the page":                 {"GET", "/vmui/../flags", with(token), 404},
		"out of the page, in disguise":    {"GET", "/vmui/%2e%2e/flags", with(token), 404},
		"a query that is malformed":       {"GET", "/api/v1/query?query=%zz", with(token), 404},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, ask(h, c.method, c.path, c.change).StatusCode) })
	}
}

func TestAnAnswerThatIsNoneIsSaidSo(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(take func(machine.Page) error) error
		want   string
	}{
		"a node that is away": {func(func(machine.Page) error) error { return errors.New("no \x1b[31mroute") }, `no`},
		"a redirect":          {func(take func(machine.Page) error) error { return take(machine.Page{Status: 302}) }, "the store answers with the status 302"},
		"no status":           {func(take func(machine.Page) error) error { return take(machine.Page{Body: []byte("x")}) }, "the store answers with the status 0"},
		"far too much": {func(take func(machine.Page) error) error {
			return take(machine.Page{Status: 200, Body: make([]byte, maxBody+1)})
		}, "the answer has more than 33 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			h, token := opened(t, func(_ nodeapi.Order, take func(machine.Page) error) error { return c.answer(take) })
			r := ask(h, "GET", "/vmui/", with(token))
			require.Equal(t, http.StatusBadGateway, r.StatusCode)
			got := text(t, r)
			require.Contains(t, got, c.want)
			require.NotContains(t, got, "\x1b")
		})
	}
	h, token := opened(t, func(_ nodeapi.Order, take func(machine.Page) error) error {
		return errors.Join(take(machine.Page{Status: 200, Body: []byte("half")}), errors.New("the node has gone"))
	})
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { ask(h, "GET", "/vmui/", with(token)) }, "the browser sees that the rest is missing")
}

func TestWithoutChanceThereIsNoPage(t *testing.T) {
	_, _, err := New(Options{Host: host, Random: strings.NewReader("short")})
	require.ErrorContains(t, err, "make the secret of the address")
}
