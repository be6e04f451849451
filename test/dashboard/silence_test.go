//go:build e2e

package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"spore/dashboard"
)

// types gives a field what a person types.
func (b *tab) types(field, keys string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf("document.querySelector(%q).focus(), true", field))
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

func TestAnOperatorSilencesAnAlertByTheKeyboard(t *testing.T) {
	t.Parallel()
	p := troubled()
	p.operator = true
	served(t, p)
	b := newTab(t)
	b.open(p.address)
	b.open(p.origin + "/alerts")
	b.types(`a[href*="PressTooHot"]`, kb.Enter)
	b.sees(patience, says("For how long"), "the form")
	require.Equal(t, "PressTooHot", eval[string](b, `document.querySelector("#name").value`))
	require.Equal(t, "job=press\n", eval[string](b, `document.querySelector("#label").value`))
	b.types("#for", "2h")
	b.types("#comment", kb.Enter)
	require.Contains(t, eval[string](b, "location.pathname"), "/alerts/silence", "the browser wants a reason")
	p.says("edge-01", failing) // What is typed stays, whatever becomes of the cluster.
	time.Sleep(7 * time.Second)
	require.Equal(t, "2h", eval[string](b, `document.querySelector("#for").value`))
	b.types("#comment", `a "new" fan`+kb.Enter)
	b.sees(patience, `location.pathname === "/alerts" && `+says(`by anna until`)+"&&"+says(`a "new" fan`), "the alert is silenced")
	p.mu.Lock()
	require.Equal(t, []dashboard.Wish{{Name: "PressTooHot", Labels: []string{"job=press"}, For: "2h", Comment: `a "new" fan`}}, p.wishes)
	for i := range p.alerts { // Another silence has the same ID here.
		if p.alerts[i].Labels["alertname"] == "SensorSilent" {
			p.alerts[i].Silences = nil
		}
	}
	p.mu.Unlock()
	b.open(p.origin + "/alerts")
	b.types(`a[href*="unsilence"]`, kb.Enter)
	b.sees(patience, says("People are told again"), "the form")
	b.types("button", kb.Enter)
	b.sees(patience, `location.pathname === "/alerts" && !`+says("by anna"), "the silence has ended")

	b.open(p.origin + "/alerts/silence?name=Watchdog")
	b.types("#for", "2h")
	b.types("#comment", "quiet"+kb.Enter)
	b.sees(patience, says("It was not done: edge-01: it would silence the alert that always fires"), "why it was not done")
	require.Equal(t, "quiet", eval[string](b, `document.querySelector("#comment").value`))
	accessible(t, b, "a form that was refused")
	b.mu.Lock()
	require.Len(t, b.wrong, 1)
	require.Contains(t, b.wrong[0], "status of 422")
	b.wrong = nil
	b.mu.Unlock()
	b.clean(p.origin)
}

// A page of another program on this machine is of the same site: the browser sends the cookie with its form. It is
// refused although it knows the token.
func TestAPageOfAnotherPortSilencesNothing(t *testing.T) {
	t.Parallel()
	p := troubled()
	p.operator = true
	served(t, p)
	b := newTab(t)
	b.open(p.address)
	b.open(p.origin + silenceForm)
	token := eval[string](b, `document.querySelector("[name=token]").value`)
	require.NotEmpty(t, token)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>evil</title><form method="post" action="%s/alerts/silence"><input name="token" value="%s">
			<input name="name" value="NodeSilent"><input name="for" value="2h"><input name="comment" value="x"><button>go</button></form>`, p.origin, token)
	}))
	defer evil.Close()
	b.open(evil.URL)
	b.types("button", kb.Enter)
	b.sees(patience, says("Another page asks for it"), "the form is refused")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.wishes)
}
