//go:build e2e

// Package dashboard tests the pages of spore dashboard in a browser: Debian's chromium, which sees what a person sees.
package dashboard

import (
	"bufio"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	chromeruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// servesVariable has this program serve the pages of a cluster, as a command of its own that can be stopped and killed.
const servesVariable = "SPORE_TEST_DASHBOARD"

// patience is how long a browser may take for a step on a machine that has other things to do.
const patience = 30 * time.Second

//go:embed testdata/axe-core/axe.min.js
var axe string

// chromium is the browser of all tests, each of which has a tab.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(servesVariable) != "" {
		if err := beCommand(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Most of them wait for what a page is to show.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	profile, err := os.MkdirTemp("", "spore-dashboard-")
	if err != nil {
		panic(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.DisableGPU, chromedp.UserDataDir(profile),
		// Nothing but the loopback is there: a name of elsewhere has no address.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", false))
	if os.Getuid() == 0 {
		// The sandbox makes user namespaces, which chromium refuses to begin with as root. It opens our own pages alone.
		options = append(options, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	chromium = ctx
	code := 1
	// Before the tests: two that begin at the same time would begin two browsers.
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "start chromium (make deps installs it):", err)
	} else {
		code = m.Run()
	}
	stop()
	end()
	_ = os.RemoveAll(profile) // What the browser still writes there is in the way of nobody.
	os.Exit(code)
}

// beCommand serves a small cluster. It prints the address, and for each line of the standard input how many goroutines
// there are and how many bytes are in use. It ends with its input.
func beCommand() error {
	p := serving()
	if err := p.serve(); err != nil {
		return err
	}
	fmt.Println(p.address)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(runtime.NumGoroutine(), m.HeapAlloc)
	}
	p.stopped()
	return nil
}

// tab is a page that is open, and what its browser tells of it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	bytes    int64
	requests []string
	wrong    []string
}

// newTab opens one. What is wrong with a page fails the test at its end.
func newTab(t *testing.T) *tab {
	t.Helper()
	return newTabOf(t, chromium)
}

// newTabOf opens one beside another, or in a profile of its own.
func newTabOf(t *testing.T, beside context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, closed := chromedp.NewContext(beside, options...)
	t.Cleanup(closed)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.hears))
	_, err := call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI));`,
	})
	require.NoError(t, err)
	return b
}

// hears takes an event of the browser.
func (b *tab) hears(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *network.EventDataReceived:
		b.bytes += e.DataLength
	case *log.EventEntryAdded:
		b.wrong = append(b.wrong, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *chromeruntime.EventConsoleAPICalled:
		var text []string
		for _, a := range e.Args {
			text = append(text, string(a.Value))
		}
		b.wrong = append(b.wrong, fmt.Sprintf("console: %s", strings.Join(text, " ")))
	case *chromeruntime.EventExceptionThrown:
		b.wrong = append(b.wrong, e.ExceptionDetails.Text)
	case *page.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, "a dialog: "+e.Message)
	}
}

// clean holds that nothing was wrong with what was open, and that all of it came from where the page is.
func (b *tab) clean(origin string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.wrong)
	for _, r := range b.requests {
		require.True(b.t, strings.HasPrefix(r, origin+"/"), "it asks %s", r)
	}
}

// call sends a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) (R, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Call(ctx, command, params)
}

// eval is what JavaScript makes of an expression in the page, of which it waits for a promise. It is not bound by the
// policy of the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	out, err := try[T](b, expression)
	require.NoError(b.t, err, expression[:min(len(expression), 200)])
	return out
}

func try[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// open goes to an address.
func (b *tab) open(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, chromedp.Navigate(address)))
}

// look has a screen of a width, in CSS pixels, and a colour scheme. A narrow one is that of a phone.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	height, options := int64(900), []chromedp.EmulateViewportOption{}
	if width < 500 {
		height, options = 844, append(options, chromedp.EmulateMobile)
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height, options...)))
	_, err := call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
}

// text is what the page says, as a person reads it.
func (b *tab) text() string {
	b.t.Helper()
	return eval[string](b, `document.body.innerText`)
}

// sees waits until an expression is true in the page, and returns how long that took.
func (b *tab) sees(bound time.Duration, expression, what string) time.Duration {
	b.t.Helper()
	began := time.Now()
	for {
		seen, err := try[bool](b, "!!(document.body && ("+expression+"))")
		if seen && err == nil {
			break
		}
		if time.Since(began) > bound { // Until then, another page may be on the way, in which nothing can be asked.
			require.NoError(b.t, err)
			require.Fail(b.t, "not seen within "+bound.String(), "%s\n%s", what, b.text())
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(began)
	b.t.Logf("%s: seen after %.1f s of %s", what, took.Seconds(), bound)
	return took
}

// says is an expression for sees: the page has the text.
func says(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }
