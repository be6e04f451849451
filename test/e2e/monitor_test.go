//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"image"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

const (
	// startCost bounds what the pages on the monitor cost until they are there, in processor time of an emulated machine.
	startCost = time.Second
	// idle is how long nothing is done, and minuteWakeups how often the program may run in a minute then: it looks at the
	// status line every two seconds.
	idle, minuteWakeups = 30 * time.Second, 400
	// glyph is the height and glyphWidth the width of a character on the monitor in pixels.
	glyph, glyphWidth = 16, 8
)

// hasAMonitor holds that pages on a monitor cost little, follow its size, and hold nothing up. The machine runs, and has
// a shell on its console.
func hasAMonitor(t *testing.T, g *guest) {
	const unit = "spore-screen.service"
	sh := func(command string) string { return strings.Join(g.shell(command), "\n") }
	shows := func(rows, columns int, what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			now, err := g.Screen()
			return err == nil && hasBar(now, 0, columns) && hasBar(now, rows-1, columns)
		}, time.Minute, time.Second, what)
	}
	size := func() (rows, columns int) {
		t.Helper()
		_, err := fmt.Sscanf(sh("stty -F /dev/tty1 size"), "%d %d", &rows, &columns)
		require.NoError(t, err)
		return rows, columns
	}
	rows, columns := size()
	shows(rows, columns, "the monitor has no page")

	// used is its processor time, how often it has run, and how many bytes it has written.
	used := func() (cpu time.Duration, wakeups, written int) {
		t.Helper()
		lines := g.shell("cd /proc/$(systemctl show -P MainPID " + unit + ") && cat /sys/fs/cgroup/system.slice/" + unit +
			"/cpu.stat task/*/status io")
		for _, l := range lines {
			f := strings.Fields(l)
			if len(f) != 2 {
				continue
			}
			n, err := strconv.Atoi(f[1])
			switch f[0] {
			case "usage_usec":
				require.NoError(t, err)
				cpu = time.Duration(n) * time.Microsecond
			case "voluntary_ctxt_switches:":
				require.NoError(t, err)
				wakeups += n
			case "wchar:":
				require.NoError(t, err)
				written = n
			}
		}
		require.Positive(t, cpu)
		require.Positive(t, wakeups)
		require.Positive(t, written)
		return cpu, wakeups, written
	}
	t.Run("its pages cost little", func(t *testing.T) {
		before, wakeups, written := used()
		sh(fmt.Sprintf("sleep %.0f", idle.Seconds()))
		now, more, wrote := used()
		minute := float64(more-wakeups) / idle.Minutes()
		require.Less(t, minute, float64(minuteWakeups))
		require.Less(t, wrote-written, rows*columns/2, "a page that is whole was written again")
		idles := time.Duration(float64(now-before) / idle.Minutes())
		// The guest's clock goes on while the host does something else, and counts as time of the guest's program: the best
		// of a few starts is compared.
		best := time.Duration(math.MaxInt64)
		for range 5 {
			sh("systemctl restart " + unit)
			shows(rows, columns, "no page after a start")
			began, _, _ := used()
			if best = min(best, began); best < startCost {
				break
			}
		}
		writeResult("monitor.md", fmt.Sprintf("| start of the monitor's pages, CPU ms | a minute, CPU ms | wakeups a minute |\n"+
			"|--:|--:|--:|\n| %d | %d | %.0f |\n", best.Milliseconds(), idles.Milliseconds(), minute))
		require.Less(t, best, startCost)
	})
	t.Run("what somebody else writes is drawn over", func(t *testing.T) {
		sh("printf 'somebody else' > /dev/tty1")
		require.Eventually(t, func() bool {
			return sh("grep -c 'somebody else' /dev/vcs1; grep -c UTC /dev/vcs1") == "0\n1"
		}, time.Minute, time.Second, "it is still there")
	})
	t.Run("its pages follow its size", func(t *testing.T) {
		for _, s := range [][2]int{{24, 80}, {30, 90}, {12, 40}, {rows, columns}} {
			sh(fmt.Sprintf("stty -F /dev/tty1 rows %d cols %d", s[0], s[1]))
			shows(s[0], s[1], fmt.Sprintf("no page of %dx%d", s[1], s[0]))
		}
	})
	t.Run("a program that is killed again and again fails nothing", func(t *testing.T) {
		const kills = 6 // more than systemd lets a unit start in ten seconds by itself
		// systemd may have started another one by itself before it is asked.
		sh(fmt.Sprintf("for i in $(seq %d); do", kills) + ` p=$(systemctl show -P MainPID ` + unit + `); kill -9 $p; ` +
			`until [ $(systemctl show -P MainPID ` + unit + `) != $p ]; do sleep 0.1; done; systemctl start ` + unit + `; done`)
		require.Equal(t, fmt.Sprintf("active\n0\n%d", kills), sh("systemctl is-active "+unit+"; systemctl --failed --no-legend | wc -l; "+
			"journalctl -q -b -u "+unit+" | grep -c 'code=killed, status=9/KILL'"))
		shows(rows, columns, "no page after it was killed")
	})
	t.Run("a monitor that stands still holds nothing up", func(t *testing.T) {
		require.NoError(t, g.Press("scroll_lock"))
		require.NoError(t, g.Press("2"))
		// The agent's own page is for a monitor that has no pages.
		require.Equal(t, "inactive", sh("timeout 60 systemctl stop "+unit+"; systemctl is-active "+unit))
		told := func(what, command string, ok func(vm.Status) bool) {
			t.Helper()
			mark := g.Console.Mark()
			sh(command)
			ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
			defer cancel()
			_, _, _, err := g.Console.AwaitStatus(ctx, mark, what, ok)
			require.NoError(t, err)
		}
		told("a status line with the unit that failed", `printf '[Service]\nType=oneshot\nExecStart=/bin/false\n' > /run/systemd/system/e2e-fails.service; systemctl daemon-reload; systemctl start e2e-fails.service`,
			func(s vm.Status) bool { return slices.Contains(s.Failed, "e2e-fails.service") })
		told("a status line without it", "systemctl reset-failed e2e-fails.service; rm /run/systemd/system/e2e-fails.service; systemctl daemon-reload",
			func(s vm.Status) bool { return len(s.Failed) == 0 && s.System == "running" })
		require.Equal(t, "active", sh("systemctl start "+unit+"; systemctl is-active "+unit))
		require.NoError(t, g.Press("scroll_lock"))
		shows(rows, columns, "no page after the monitor goes on")
		require.Equal(t, "active", sh("systemctl is-active spore-agent.service"))
	})
}

// hasBar tells whether a row of characters of a picture is a bar, as the first and the last one of a page are.
func hasBar(picture image.Image, row, columns int) bool {
	b, bright := picture.Bounds(), 0
	y := b.Min.Y + row*glyph + 1
	if y >= b.Max.Y || columns*glyphWidth > b.Dx() {
		return false
	}
	for x := b.Min.X; x < b.Min.X+columns*glyphWidth; x++ {
		if r, _, _, _ := picture.At(x, y).RGBA(); r > 0x6000 {
			bright++
		}
	}
	return bright > columns*glyphWidth/2
}
