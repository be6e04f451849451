// Package browser has tests look at pages with Debian's chromium, which sees what a person sees.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Patience is how long a browser may take for a step on a machine that has other things to do.
const Patience = 30 * time.Second

// Browser is a chromium without a window, which reaches the loopback alone. Its tabs share a profile that is of it alone.
type Browser struct {
	ctx context.Context
	end func()
}

// Person is whose browser it is, where that matters.
type Person struct {
	// Home is the home directory; that of the process when it is empty. NSS keeps there which authorities and which
	// certificates the person has imported (Certificates).
	Home string
	// Hosts has for a name with a port the address to which it leads, such as 127.0.0.1:43117 for edge-01:8644.
	Hosts map[string]string
	// Shows has for an origin, such as https://edge-01:8644, the common name in the certificate that the person chooses there.
	// At another origin that wants one, the browser asks in a dialog as soon as the person has one to offer.
	Shows map[string]string
}

// Start starts one in the network of the process. Whoever needs several tabs begins with one browser: each takes a
// second of a processor.
func Start() (*Browser, error) { return Person{}.Start() }

// Start starts the browser of the person.
func (p Person) Start() (*Browser, error) {
	profile, err := os.MkdirTemp("", "spore-browser-")
	if err != nil {
		return nil, err
	}
	if err := p.prefers(profile); err != nil {
		_ = os.RemoveAll(profile)
		return nil, err
	}
	var hosts strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.Hosts)) {
		fmt.Fprintf(&hosts, "MAP %s %s, ", name, p.Hosts[name])
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.DisableGPU, chromedp.UserDataDir(profile),
		// Nothing but the loopback is there: a name of elsewhere has no address.
		chromedp.Flag("host-resolver-rules", hosts.String()+"MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", false))
	if p.Home != "" {
		options = append(options, chromedp.Env("HOME="+p.Home))
	}
	if os.Getuid() == 0 {
		// The sandbox makes user namespaces, which chromium refuses to begin with as root. It opens our own pages alone.
		options = append(options, chromedp.NoSandbox)
	}
	allocator, ended := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	b := &Browser{ctx: ctx, end: func() {
		stop()
		ended()
		_ = os.RemoveAll(profile) // What the browser still writes there is in the way of nobody.
	}}
	if err := chromedp.Do(ctx); err != nil {
		b.End()
		return nil, fmt.Errorf("start chromium (make deps installs it): %w", err)
	}
	return b, nil
}

// prefers writes what a new profile begins with: what the policy AutoSelectCertificateForUrls says, in the form in which
// a profile keeps it. The policy itself would be of all browsers of the machine.
func (p Person) prefers(profile string) error {
	if len(p.Shows) == 0 {
		return nil
	}
	chooses := map[string]any{}
	for origin, name := range p.Shows {
		chooses[origin+",*"] = map[string]any{"setting": map[string]any{"filters": []any{map[string]any{"SUBJECT": map[string]string{"CN": name}}}}}
	}
	var preferences any = chooses
	for _, key := range []string{"auto_select_certificate", "exceptions", "content_settings", "profile"} {
		preferences = map[string]any{key: preferences}
	}
	data, err := json.Marshal(preferences)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(profile, "Default"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(profile, "Default", "Preferences"), data, 0o600)
}

// End ends the browser, with all of its tabs.
func (b *Browser) End() { b.end() }

// Tab is a page that is open, and what its browser tells of it. It is closed when its test ends.
type Tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	bytes    int64
	requests []string
	wrong    []string
	secure   chan security.State
}

// Tab opens one in the profile of the browser.
func (b *Browser) Tab(t *testing.T) *Tab {
	t.Helper()
	return newTab(t, b.ctx)
}

// Profile opens one in a profile of its own, which has other cookies and connections than all others.
func (b *Browser) Profile(t *testing.T) *Tab {
	t.Helper()
	return newTab(t, b.ctx, chromedp.WithNewBrowserContext())
}

// Beside opens another tab in the profile of this one.
func (b *Tab) Beside() *Tab {
	b.t.Helper()
	return newTab(b.t, b.ctx)
}

func newTab(t *testing.T, beside context.Context, options ...chromedp.ContextOption) *Tab {
	t.Helper()
	ctx, closed := chromedp.NewContext(beside, options...)
	t.Cleanup(closed)
	b := &Tab{t: t, ctx: ctx, secure: make(chan security.State, 1)}
	require.NoError(t, chromedp.Listen(ctx, b.hears))
	b.Prepare(`addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI));`)
	return b
}

// hears takes an event of the browser.
func (b *Tab) hears(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *network.EventDataReceived:
		b.bytes += e.DataLength
	case *log.EventEntryAdded:
		b.wrong = append(b.wrong, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		var text []string
		for _, a := range e.Args {
			text = append(text, string(a.Value))
		}
		b.wrong = append(b.wrong, fmt.Sprintf("console: %s", strings.Join(text, " ")))
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, e.ExceptionDetails.Text)
	case *security.EventVisibleSecurityStateChanged:
		select {
		case <-b.secure: // The last one counts.
		default:
		}
		b.secure <- e.VisibleSecurityState.SecurityState
	case *page.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, "a dialog: "+e.Message)
	}
}

// Wrong is what was wrong since it was asked last: all that is on the console, such as an answer that is no success, a
// breach of the page's policy, an error of a script, and dialogs.
func (b *Tab) Wrong() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrong := b.wrong
	b.wrong = nil
	return wrong
}

// Bytes is how many bytes of answers have come since it was asked last, without their headers.
func (b *Tab) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes := b.bytes
	b.bytes = 0
	return bytes
}

// Clean holds that nothing was wrong with what was open, and that all of it came from where the page is.
func (b *Tab) Clean(origin string) {
	b.t.Helper()
	require.Empty(b.t, b.Wrong())
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		require.True(b.t, strings.HasPrefix(r, origin+"/"), "it asks %s", r)
	}
}

// Call sends a command of the protocol of chromium's developer tools.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) (R, error) {
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	return chromedp.Call(ctx, command, params)
}

// Eval is what JavaScript makes of an expression in the page, of which it waits for a promise. It is not bound by the
// policy of the page.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	out, err := try[T](b, expression)
	require.NoError(b.t, err, expression[:min(len(expression), 200)])
	return out
}

func try[T any](b *Tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Warns holds that the browser does not take the certificate of a page, because it is of an authority that the person does
// not trust. What the browser says of it is then there instead of the page.
func (b *Tab) Warns(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	require.ErrorContains(b.t, chromedp.Do(ctx, chromedp.Navigate(address)), "net::ERR_CERT_AUTHORITY_INVALID")
	// The error is told before the page is there that says so.
	b.Sees(Patience, `location.protocol === "chrome-error:"`, "the warning")
	require.NotEqual(b.t, security.StateSecure, b.security())
}

// Secure holds that the browser calls the connection of the page secure: its certificate is one of an authority that the
// person trusts, is for the name, and holds.
func (b *Tab) Secure() {
	b.t.Helper()
	require.Equal(b.t, security.StateSecure, b.security())
}

// security is how secure the browser calls the connection of the page.
func (b *Tab) security() security.State {
	b.t.Helper()
	_, err := Call(b, security.Enable, cdp.Empty{})
	require.NoError(b.t, err)
	var state security.State
	select {
	case state = <-b.secure:
	case <-time.After(Patience):
		require.Fail(b.t, "the browser does not say how secure the page is")
	}
	_, err = Call(b, security.Disable, cdp.Empty{})
	require.NoError(b.t, err)
	return state
}

// Prepare has each page that is opened from now on run a script before its own.
func (b *Tab) Prepare(script string) {
	b.t.Helper()
	_, err := Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	require.NoError(b.t, err)
}

// Open goes to an address, and waits until the page is loaded.
func (b *Tab) Open(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, chromedp.Navigate(address)))
}

// Look has a screen of a width, in CSS pixels, and a colour scheme: "light" or "dark". A narrow one is that of a phone.
func (b *Tab) Look(width int64, scheme string) {
	b.t.Helper()
	height, options := int64(900), []chromedp.EmulateViewportOption{}
	if width < 500 {
		height, options = 844, append(options, chromedp.EmulateMobile)
	}
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height, options...)))
	_, err := Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
}

// Press presses keys: letters, and those of package kb of chromedp.
func (b *Tab) Press(keys string) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

// Type presses keys in the field that a selector of CSS finds first.
func (b *Tab) Type(field, keys string) {
	b.t.Helper()
	Eval[bool](b, fmt.Sprintf("document.querySelector(%q).focus(), true", field))
	b.Press(keys)
}

// Text is what the page says, as a person reads it.
func (b *Tab) Text() string {
	b.t.Helper()
	return Eval[string](b, `document.body.innerText`)
}

// Sees waits until an expression of JavaScript is true in the page, and returns how long that took.
func (b *Tab) Sees(bound time.Duration, expression, what string) time.Duration {
	b.t.Helper()
	began := time.Now()
	for {
		seen, err := try[bool](b, "!!(document.body && ("+expression+"))")
		if seen && err == nil {
			break
		}
		if time.Since(began) > bound { // Until then, another page may be on the way, in which nothing can be asked.
			require.NoError(b.t, err)
			require.Fail(b.t, "not seen within "+bound.String(), "%s\n%s", what, b.Text())
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(began)
	b.t.Logf("%s: seen after %.1f s of %s", what, took.Seconds(), bound)
	return took
}

// Says is an expression for Sees: the page has the text.
func Says(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }
