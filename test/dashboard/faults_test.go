//go:build e2e

package dashboard

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/browser"
	"spore/wire/machine"
)

// Bounds of docs/dashboard.md, in which a person sees what has changed: a page has a value that is old as such, and it
// has a new one of a node, which is asked every 5 s, or of alerts, which are asked for every 15 s. lost is that of a
// command that says nothing any more.
const (
	greyBound   = 10 * time.Second
	nodeBound   = 10 * time.Second
	alertsBound = 20 * time.Second
	lostBound   = 12 * time.Second
)

// tileOf is an expression for sees about the tile of a node, which is e in it.
func tileOf(name, of string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".tile")].some((e) => e.querySelector("a").textContent === %q && (%s))`, name, of)
}

const grey = `e.classList.contains("stale") && getComputedStyle(e).filter.includes("grayscale") && /as of \d+ s ago/.test(e.innerText)`

func TestFaultsAreSeenWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	p := served(t, newPlant("edge-01", "edge-02", "edge-03"))
	b := chromium.Tab(t)
	b.Open(p.address)
	b.Sees(browser.Patience, browser.Says("Nothing is wrong"), "nothing is wrong")

	began := time.Now()
	within := func(bound time.Duration) time.Duration { return max(bound-time.Since(began), 0) }
	p.says("edge-01", func(a *answer) { a.silent = true })
	p.says("edge-02", failing)
	p.fires(machine.Alert{
		Labels: map[string]string{machine.AlertName: hostile, machine.AlertNode: "edge-03", machine.Severity: "critical"},
		State:  machine.Fires, Since: time.Now(), Summary: "the press is too hot " + hostile,
	})
	b.Sees(within(nodeBound), browser.Says("1 % of /var is free")+"&&"+tileOf("edge-02", `e.classList.contains("critical")`), "health becomes worse")
	b.Sees(within(greyBound), tileOf("edge-01", grey), "a node that goes silent is grey, with its age")
	require.False(t, browser.Eval[bool](b, tileOf("edge-03", `e.classList.contains("stale")`)), "another node is not")
	b.Sees(within(alertsBound), browser.Says("the press is too hot"), "an alert fires")
	require.Contains(t, b.Text(), "<img src=x onerror", "what is hostile is text")
	b.Sees(within(timeout+nodeBound), browser.Says("it does not answer: no answer in time"), "the reason of the silence")

	began = time.Now()
	p.says("edge-01", func(a *answer) { a.silent = false })
	p.says("edge-02", func(a *answer) { *a = well("edge-02") })
	b.Sees(within(timeout+nodeBound), tileOf("edge-01", `!e.classList.contains("stale") && e.classList.contains("ok")`), "a node comes back")
	b.Sees(within(nodeBound), tileOf("edge-02", `e.classList.contains("ok")`), "a node becomes well")
	require.False(t, browser.Eval[bool](b, "'hacked' in window"))
	b.Clean(p.origin)
}

func TestTheClockOfTheBrowserIsOfNoMatter(t *testing.T) {
	t.Parallel()
	p := served(t, newPlant("edge-01", "edge-02"))
	b := chromium.Tab(t)
	// Twenty years ahead, and each second takes an hour.
	b.Prepare(`(() => {
		const Real = Date, begun = Real.now(), wrong = () => begun + 20 * 365 * 86400e3 + (Real.now() - begun) * 3600;
		window.Date = class extends Real { constructor(...a) { super(...(a.length ? a : [wrong()])); } static now() { return wrong(); } };
	})();`)
	b.Open(p.address)
	require.Greater(t, browser.Eval[int](b, "new Date().getFullYear()"), 2040)
	p.says("edge-01", func(a *answer) { a.silent = true })
	b.Sees(greyBound, tileOf("edge-01", grey), "the age is that of the command's clock")
	require.False(t, browser.Eval[bool](b, tileOf("edge-02", `e.classList.contains("stale")`)))
	require.NotContains(t, b.Text(), " h ago")
	require.True(t, browser.Eval[bool](b, `document.getElementById("lost").hidden`), "the page does not take the command for one that is silent")
	b.Clean(p.origin)
}

func TestACertificateEndsWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	p := newPlant("edge-01")
	p.ends = time.Now().Add(12 * time.Second)
	served(t, p)
	b := chromium.Tab(t)
	b.Open(p.address)
	b.Sees(nodeBound, browser.Says("Nothing is wrong"), "nothing is wrong")
	require.Contains(t, b.Text(), "at the latest at "+p.ends.UTC().Format("2006-01-02 15:04 UTC"))
	b.Sees(time.Until(p.ends)+nodeBound, browser.Says("The certificate has ended"), "the certificate ends")
	b.Clean(p.origin)
	for _, how := range []string{"while it was open", "opened again"} {
		require.Contains(t, b.Text(), "stop spore dashboard by Ctrl-C, and start it again", how)
		require.NotContains(t, b.Text(), "edge-01", how)
		require.True(t, browser.Eval[bool](b, `document.title.startsWith("The certificate has ended")`), how)
		accessible(t, b, how)
		b.Open(p.origin + "/")
	}
}

// command is the pages of a small cluster, as a process of its own.
type command struct {
	*exec.Cmd
	address, origin string
	in              io.WriteCloser
	out             *bufio.Reader
}

func newCommand(t *testing.T) *command {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &command{Cmd: exec.Command(self)}
	c.Env = append(os.Environ(), servesVariable+"=1")
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.in, err = c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill() // an error means that it has ended
		_ = c.Wait()
	})
	c.out = bufio.NewReader(out)
	c.address, err = c.out.ReadString('\n')
	require.NoError(t, err)
	c.address = strings.TrimSpace(c.address)
	c.origin = c.address[:strings.LastIndex(c.address, "/")]
	return c
}

func TestACommandThatHangsOrEndsIsTold(t *testing.T) {
	t.Parallel()
	c := newCommand(t)
	b := chromium.Tab(t)
	b.Open(c.address)
	b.Sees(browser.Patience, browser.Says("things are wrong"), "the page is there")
	require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
	stale := `document.getElementById("main").classList.contains("stale")`
	b.Sees(lostBound, browser.Says("spore dashboard says nothing any more")+"&&"+stale, "a command that hangs")
	require.Contains(t, b.Text(), "edge-01", "what is old stays")
	require.NoError(t, c.Process.Signal(syscall.SIGCONT))
	b.Sees(nodeBound, "!("+stale+")", "a command that goes on")
	b.Clean(c.origin)
	require.NoError(t, c.Process.Kill())
	b.Sees(nodeBound, browser.Says("The connection to spore dashboard is lost")+"&&"+stale, "a command that has ended")
	require.Contains(t, b.Text(), "Is the command still running?")
	accessible(t, b, "an old page")
}
