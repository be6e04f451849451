//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// makesRoomForItsOperator fills the state of edge-01, which has a shell on its console, and has its operator find out
// and make room. ask runs a command of the program.
func makesRoomForItsOperator(t *testing.T, b broker, g *guest, ask func(command string, args ...string) (out, errs string, ok bool)) {
	done := func(command string, args ...string) (out, errs string) {
		t.Helper()
		out, errs, ok := ask(command, args...)
		require.True(t, ok, errs)
		return out, errs
	}
	const old = "/system@full.journal"
	g.shell(`fallocate -l $(($(df -B1 --output=avail /var | tail -n1) - 65536)) $(echo /var/log/journal/*)` + old)
	require.Equal(t, []string{"100%"}, g.shell("df --output=pcent /var | tail -n1 | tr -d ' '"))

	text, _ := done("status", "--node", "edge-01")
	require.Contains(t, text, "edge-01")
	text, _ = done("disks", "--node", "edge-01")
	require.Regexp(t, `(?m)^  \d+ .* spore-state .* /var .*100%`, text)
	done("top", "--node", "edge-01", "--once")
	text, errs := done("clean", "--node", "edge-01", "--dry-run")
	require.Regexp(t, `edge-01 +takes +\S+ GiB +/var/log/journal`, text)
	require.Regexp(t, `edge-01 +remove +\S+ GiB +/var/log/journal/\S+`+old+` \(closed journal\)`, text)
	require.Contains(t, errs, "nothing was removed")

	_, errs = done("clean", "--node", "edge-01")
	require.Regexp(t, `edge-01: removed \d+ files and folders with \d{4,} MiB; /var has \d{4,} of \d+ MiB free`, errs)
	text, _ = done("disks", "--node", "edge-01")
	require.NotRegexp(t, `spore-state .* /var .*100%`, text)
	b.servesItsUsers(t, g)
}

// letsItsOperatorInByAnEarlyClock sets the clock of edge-01, which has a shell on its console, back to a time before
// the certificates of its operators, and forward again. Only where the machine knows that its clock is too early, as
// after a start without a battery and without a time server, they get in.
func letsItsOperatorInByAnEarlyClock(t *testing.T, g *guest, ask func(command string, args ...string) (out, errs string, ok bool)) {
	// It would set the clock right at once, when it is told of the jump.
	g.shell("systemctl stop systemd-timesyncd; date --set=@$(($(date +%s) - 40 * 86400))")
	text, errs, ok := ask("status", "--node", "edge-01")
	require.False(t, ok)
	require.Contains(t, text+errs, "tls: bad certificate")
	g.shell("touch /run/spore/time/wrong")
	_, errs, ok = ask("status", "--node", "edge-01")
	require.True(t, ok, errs)
	g.shell(fmt.Sprintf("rm /run/spore/time/wrong; date --set=@%d; systemctl start systemd-timesyncd", time.Now().Unix()))
	_, errs, ok = ask("status", "--node", "edge-01")
	require.True(t, ok, errs)
}
