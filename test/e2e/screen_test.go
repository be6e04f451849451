//go:build e2e

package e2e

import (
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// TestAPersonStandsBeforeAMachine has somebody look at pages on the serial line and on the monitor of a node.
func TestAPersonStandsBeforeAMachine(t *testing.T) {
	inTurn(t)
	c := stranger("screen", "7", dnsIP, "dns-01", bootDisk(overlay(t)))
	c.Display = true
	g := boot(t, c)
	s := g.running()
	require.Equal(t, "dns-01", s.Node)

	t.Run("the monitor turns pages", func(t *testing.T) {
		require.Eventually(t, func() bool {
			now, err := g.Screen()
			return err == nil && hasTitle(now)
		}, bootLimit, time.Second, "the monitor has no page")
		before := g.picture(t, "screen-status")
		for _, key := range []string{"2", "6"} {
			require.NoError(t, g.Press(key))
			require.Eventually(t, func() bool {
				now, err := g.Screen()
				return err == nil && hasTitle(now) && !same(before, now)
			}, bootLimit, time.Second, "nothing changes when %s is pressed", key)
			before = g.picture(t, "screen-"+key)
		}
	})
	t.Run("the serial line has pages on Enter, and is given back", func(t *testing.T) {
		operator := watch(t, g.Console)
		require.NoError(t, g.Type("\n"))
		g.shows(`dns-01 of \S+ .*UTC.*role +\[ ok \] dns-server.*addresses .*q quit`)
		operator.sees(t, `(?s)^ dns-01 of .*UTC *\n.*\n role +\[ ok \] dns-server *\n.*\n 1 status .* q quit`)
		require.NoError(t, g.Type("2"))
		g.shows(`coredns\.service +active`)
		require.NoError(t, g.Type("4"))
		g.shows(`gateway +10\.77\.0\.\d+ +\d+\.\d ms`)
		require.NoError(t, g.Type("5"))
		g.shows(`serial +DISK0001`)
		require.NoError(t, g.Type("3"))
		g.shows(`the newest first.*systemd`)
		require.NoError(t, g.Type("6"))
		g.shows(`The machine.*memory +\d+ MiB`)
		g.mark = g.Console.Mark()
		require.NoError(t, g.Type("q"))
		s = g.await("the status line when the page is closed", func(s vm.Status) bool { return s.Node == "dns-01" })
		require.Empty(t, s.Failed)
		operator.sees(t, `\n\{"spore":1,`)
		from := g.Console.Mark()
		require.Eventually(t, func() bool { // What is typed while the page closes goes with it.
			require.NoError(t, g.Type("\n"))
			_, opened := g.opened(from)
			return opened
		}, bootLimit, 10*time.Second)
		require.NoError(t, g.Type("3"))
		g.showsFrom(from, `the newest first.*Stopped|the newest first.*Deactivated`)
		// systemd tells of units that took a second of the processor, and that of an emulated one has what others took of it.
		require.NotRegexp(t, `spore-screen\S*: Consumed (\d+min|[5-9]\.|\d\d+\.)`, g.Console.Tail(), "pages cost seconds")
		require.NoError(t, g.Type("q"))
	})
}

// shows waits until the page that is open on the serial line has what matches.
func (g *guest) shows(pattern string) {
	g.t.Helper()
	g.showsFrom(g.mark, pattern)
}

func (g *guest) showsFrom(from int, pattern string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	_, err := g.Console.AwaitQuestion(ctx, from, regexp.MustCompile(pattern))
	require.NoError(g.t, err)
}

// opened tells whether a page was opened on the serial line from a mark on.
func (g *guest) opened(from int) (mark int, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	mark, err := g.Console.AwaitQuestion(ctx, from, regexp.MustCompile(`1 status.*q quit`))
	return mark, err == nil
}

// hasTitle tells whether a picture shows a page.
func hasTitle(picture image.Image) bool { return hasBar(picture, 0, picture.Bounds().Dx()/glyphWidth) }

// picture is what the monitor shows; it is kept in the folder SPORE_RESULTS, if that is set.
func (g *guest) picture(t *testing.T, name string) image.Image {
	t.Helper()
	picture, err := g.Screen()
	require.NoError(t, err)
	if dir := os.Getenv("SPORE_RESULTS"); dir != "" {
		f, err := os.Create(filepath.Join(dir, name+".png"))
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, png.Encode(f, picture))
	}
	return picture
}

// same compares pictures but for their first rows, in which the clock goes on.
func same(a, b image.Image) bool {
	if a.Bounds() != b.Bounds() {
		return false
	}
	for y := a.Bounds().Min.Y + 32; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			if a.At(x, y) != b.At(x, y) {
				return false
			}
		}
	}
	return true
}
