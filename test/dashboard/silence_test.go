//go:build e2e

package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"spore/dashboard"
	"spore/test/browser"
)

func TestAnOperatorSilencesAnAlertByTheKeyboard(t *testing.T) {
	t.Parallel()
	p := troubled()
	p.operator = true
	served(t, p)
	b := chromium.Tab(t)
	b.Open(p.address)
	b.Open(p.origin + "/alerts")
	b.Type(`a[href*="PressTooHot"]`, kb.Enter)
	b.Sees(browser.Patience, browser.Says("For how long"), "the form")
	require.Equal(t, "PressTooHot", browser.Eval[string](b, `document.querySelector("#name").value`))
	require.Equal(t, "job=press\n", browser.Eval[string](b, `document.querySelector("#label").value`))
	b.Type("#for", "2h")
	b.Type("#comment", kb.Enter)
	require.Contains(t, browser.Eval[string](b, "location.pathname"), "/alerts/silence", "the browser wants a reason")
	p.says("edge-01", failing) // What is typed stays, whatever becomes of the cluster.
	time.Sleep(7 * time.Second)
	require.Equal(t, "2h", browser.Eval[string](b, `document.querySelector("#for").value`))
	b.Type("#comment", `a "new" fan`+kb.Enter)
	b.Sees(browser.Patience, `location.pathname === "/alerts" && `+browser.Says(`by anna until`)+"&&"+browser.Says(`a "new" fan`), "the alert is silenced")
	p.mu.Lock()
	require.Equal(t, []dashboard.Wish{{Name: "PressTooHot", Labels: []string{"job=press"}, For: "2h", Comment: `a "new" fan`}}, p.wishes)
	for i := range p.alerts { // Another silence has the same ID here.
		if p.alerts[i].Labels["alertname"] == "SensorSilent" {
			p.alerts[i].Silences = nil
		}
	}
	p.mu.Unlock()
	b.Open(p.origin + "/alerts")
	b.Type(`a[href*="unsilence"]`, kb.Enter)
	b.Sees(browser.Patience, browser.Says("People are told again"), "the form")
	b.Type("button", kb.Enter)
	b.Sees(browser.Patience, `location.pathname === "/alerts" && !`+browser.Says("by anna"), "the silence has ended")

	b.Open(p.origin + "/alerts/silence?name=Watchdog")
	b.Type("#for", "2h")
	b.Type("#comment", "quiet"+kb.Enter)
	b.Sees(browser.Patience, browser.Says("It was not done: edge-01: it would silence the alert that always fires"), "why it was not done")
	require.Equal(t, "quiet", browser.Eval[string](b, `document.querySelector("#comment").value`))
	accessible(t, b, "a form that was refused")
	wrong := b.Wrong()
	require.Len(t, wrong, 1)
	require.Contains(t, wrong[0], "status of 422")
	b.Clean(p.origin)
}

// A page of another program on this machine is of the same site: the browser sends the cookie with its form. It is
// refused although it knows the token.
func TestAPageOfAnotherPortSilencesNothing(t *testing.T) {
	t.Parallel()
	p := troubled()
	p.operator = true
	served(t, p)
	b := chromium.Tab(t)
	b.Open(p.address)
	b.Open(p.origin + silenceForm)
	token := browser.Eval[string](b, `document.querySelector("[name=token]").value`)
	require.NotEmpty(t, token)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>evil</title><form method="post" action="%s/alerts/silence"><input name="token" value="%s">
			<input name="name" value="NodeSilent"><input name="for" value="2h"><input name="comment" value="x"><button>go</button></form>`, p.origin, token)
	}))
	defer evil.Close()
	b.Open(evil.URL)
	b.Type("button", kb.Enter)
	b.Sees(browser.Patience, browser.Says("Another page asks for it"), "the form is refused")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.wishes)
}
