//go:build e2e

package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	chromeruntime "github.com/chromedp/cdproto/runtime"
	"github.com/stretchr/testify/require"

	"spore/test/browser"
)

// What is open at a time, and how much more the command may have at the end than at the beginning: connections that it
// has yet to see the end of, and bytes; and how many bytes more each page may have in the browser.
const (
	viewers        = 50
	moreGoroutines = 5
	moreBytes      = 4 << 20
	moreHeap       = 2 << 20
)

// A browser opens six connections to an address at most: those who look are clients that ask what a browser asks.
func TestPagesThatAreClosedLeaveNothing(t *testing.T) {
	t.Parallel()
	c := newCommand(t)
	length := 45 * time.Second
	if os.Getenv("SPORE_SOAK") != "" {
		length = time.Hour
	}
	round(t, c)
	goroutines, bytes := c.uses(t)
	began, rounds := time.Now(), 0
	for ; time.Since(began) < length; rounds++ {
		round(t, c)
	}
	require.Greater(t, rounds, 3)
	var g, m int
	require.Eventually(t, func() bool {
		g, m = c.uses(t)
		return g <= goroutines+moreGoroutines && m <= bytes+moreBytes
	}, browser.Patience, 100*time.Millisecond, "it had %d goroutines and %d bytes", goroutines, bytes)
	t.Logf("%d rounds of %d pages: %d goroutines and %d kB, %d and %d kB before", rounds, viewers, g, m>>10, goroutines, bytes>>10)
}

// A browser has six connections to an address in each of its profiles, of which a page keeps one: fifty pages are in ten
// profiles. They stay open for an hour in make soak, and for some seconds else.
func TestPagesThatStayOpenCostNoMore(t *testing.T) {
	t.Parallel()
	profiles, each, length, warm := 2, 2, 2*time.Second, time.Duration(0)
	if os.Getenv("SPORE_SOAK") != "" {
		profiles, each, length, warm = 10, viewers/10, time.Hour, 2*time.Minute
	}
	c := newCommand(t)
	before, _ := c.uses(t)
	var paths []string
	for _, p := range pages {
		if !p.still && p.status == 0 && !p.operator {
			paths = append(paths, p.path)
		}
	}
	var tabs []*browser.Tab
	for range profiles {
		first := chromium.Profile(t)
		first.Open(c.address)
		for i := range each {
			b := first
			if i > 0 {
				b = first.Beside()
			}
			b.Open(c.origin + paths[len(tabs)%len(paths)])
			tabs = append(tabs, b)
		}
	}
	// heaps is what the scripts of all pages use, after what nobody uses was given up.
	heaps := func() (bytes int) {
		for _, b := range tabs {
			_, err := browser.Call(b, heapprofiler.CollectGarbage, cdp.Empty{})
			require.NoError(t, err)
			used, err := browser.Call(b, chromeruntime.GetHeapUsage, cdp.Empty{})
			require.NoError(t, err)
			bytes += int(used.UsedSize + used.EmbedderHeapUsedSize)
		}
		return bytes
	}
	time.Sleep(warm)
	goroutines, bytes := c.uses(t)
	heap := heaps()
	g, m, h := goroutines, bytes, heap
	for began, look := time.Now(), min(time.Minute, length); time.Since(began) < length; {
		time.Sleep(look)
		for _, b := range tabs {
			// Where the machine has no processor for ten seconds, a page says that it hears nothing; then it hears again.
			require.Eventually(t, func() bool {
				return browser.Eval[bool](b, `document.getElementById("lost").hidden && document.getElementById("main").innerText.length > 20`)
			}, browser.Patience, 100*time.Millisecond, "a page says that it hears nothing, or shows nothing")
		}
		g, m = c.uses(t)
		h = heaps()
		t.Logf("after %s: %d goroutines, %d kB and %d kB in the browser", time.Since(began).Round(time.Second), g, m>>10, h>>10)
		require.LessOrEqual(t, g, goroutines+moreGoroutines)
		require.LessOrEqual(t, m, bytes+moreBytes)
		require.LessOrEqual(t, h, heap+len(tabs)*moreHeap)
	}
	t.Logf("%d pages for %s: %d goroutines, %d kB and %d kB in the browser; %d, %d and %d kB before", len(tabs), length, g, m>>10, h>>10, goroutines,
		bytes>>10, heap>>10)
	for _, b := range tabs {
		b.Clean(c.origin)
		b.Open("about:blank")
	}
	require.Eventually(t, func() bool { g, _ = c.uses(t); return g <= before+moreGoroutines }, browser.Patience, 100*time.Millisecond, "%d goroutines before", before)
}

// uses is how many goroutines the command has, and how many bytes.
func (c *command) uses(t *testing.T) (goroutines, bytes int) {
	t.Helper()
	_, err := fmt.Fprintln(c.in)
	require.NoError(t, err)
	line, err := c.out.ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscan(line, &goroutines, &bytes)
	require.NoError(t, err)
	return goroutines, bytes
}

// round opens all pages, reads two events of each, and closes them.
func round(t *testing.T, c *command) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browser.Patience)
	defer cancel()
	problems := make(chan error, viewers)
	var all sync.WaitGroup
	var paths []string
	for _, p := range pages {
		if !p.still {
			paths = append(paths, p.path)
		}
	}
	for i := range viewers {
		all.Go(func() { problems <- view(ctx, c, paths[i%len(paths)]) })
	}
	all.Wait()
	for range viewers {
		require.NoError(t, <-problems)
	}
}

// view is one who looks at a page.
func view(ctx context.Context, c *command, path string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	own := &http.Transport{}
	defer own.CloseIdleConnections()
	browser := http.Client{Jar: jar, Transport: own}
	get := func(address string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		return browser.Do(r)
	}
	for _, address := range []string{c.address, c.origin + path} {
		res, err := get(address)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
	}
	res, err := get(c.origin + "/events?page=" + url.QueryEscape(path))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	seen := 0
	for lines := bufio.NewScanner(res.Body); seen < 2 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "event: ") {
			seen++
		}
	}
	if seen < 2 {
		return fmt.Errorf("%s: %d events of 2", path, seen)
	}
	return nil
}
