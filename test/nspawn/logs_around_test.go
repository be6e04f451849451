//go:build e2e

package nspawn

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/logs"
)

// TestWhatWasSaidAroundAnAlert has the program that reads a node's journal end again and again. An alert fires, of
// which `spore logs --around` shows what the node said then: first by the alert that fires, and then by what the store
// of metrics knows.
func TestWhatWasSaidAroundAnAlert(t *testing.T) {
	l := &logsLab{Lab: New(t, Options{Source: "../..", Configs: "testdata/around"}), synced: map[*Node]map[string]int{}}
	l.observer, l.edge = l.Node("observer"), l.Node("edge-1")
	l.StartAll()
	const alert = "NodeUnitRestartsOften"
	unit := strings.Replace(logs.UploaderUnit, "@", "@1", 1)

	l.Step("nothing has fired yet", func(t *testing.T) {
		// The store of metrics takes samples when it has had its certificate.
		require.Eventually(t, func() bool {
			out, _, ok := l.quiet(t.Context(), "metrics", `node_systemd_service_restart_total{name="`+unit+`",instance="edge-1"}`)
			return ok && strings.Contains(out, unit)
		}, logsLimit, time.Second, "the node tells how often the unit was started again")
		_, errs, ok := l.spore(t.Context(), "logs", "--around", alert)
		require.False(t, ok)
		require.Contains(t, errs, "no alert "+alert+" fires, and none has in the last 7 days")
	})
	l.Step("an alert fires", func(t *testing.T) {
		l.write(l.observer, "elsewhere", 20)
		l.write(l.edge, "before", 20)
		for range 6 {
			before := l.edge.process(unit)
			l.edge.MustExec("systemctl", "kill", "--signal=SIGKILL", unit)
			require.Eventually(t, func() bool {
				pid := l.edge.MustExec("systemctl", "show", "--value", "--property=MainPID", unit)
				return pid != "0" && pid != before
			}, 2*time.Minute, 100*time.Millisecond, "%s is started again", unit)
		}
		if !eventually(logsLimit, 2*time.Second, func() bool {
			out, _, _ := l.quiet(t.Context(), "alerts") // It fails while some fire.
			return strings.Contains(out, alert)
		}) {
			l.spore(t.Context(), "alerts")
			require.FailNow(t, alert+" does not fire", l.observer.journal())
		}
		l.write(l.edge, "after", 20)
		l.arrived()
	})
	around := func(t *testing.T) (errs string) {
		out, errs, ok := l.quiet(t.Context(), "logs", "--around", alert, "--for", "1h", "--grep", "^(before|after|elsewhere) [0-9]+$")
		require.True(t, ok, errs)
		require.Contains(t, errs, alert+" began to fire at "+time.Now().UTC().Format("2006-01-02T"))
		require.Equal(t, 20, strings.Count(out, ": before "), "%s%s", out, errs)
		require.Equal(t, 20, strings.Count(out, ": after "))
		require.NotContains(t, out, ": elsewhere ", "the alert is of one node")
		require.Less(t, strings.Index(out, ": before 000020"), strings.Index(out, ": after 000001"))
		return errs
	}
	l.Step("what its node said is shown while it fires", func(t *testing.T) {
		require.NotContains(t, around(t), "it is not known whether")
	})
	l.Step("what its node said is shown where nobody knows what fires now", func(t *testing.T) {
		// The store answers with what is older than half a minute.
		require.Eventually(t, func() bool {
			out, _, ok := l.quiet(t.Context(), "metrics", `ALERTS{alertstate="firing",alertname="`+alert+`"}`)
			return ok && strings.Contains(out, alert)
		}, logsLimit, time.Second, "the store of metrics knows what fires")
		l.observer.MustExec("systemctl", "stop", "alertmanager.service")
		require.Contains(t, around(t), "it is not known whether "+alert+" fires now")
	})
}
