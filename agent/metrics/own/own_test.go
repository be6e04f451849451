package own

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/family"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/wire/nodeapi"
)

// series are the values of a family by the values of its labels.
func series(t *testing.T, s *family.Sink, name string) map[string]float64 {
	t.Helper()
	all, errs := s.Families()
	require.Empty(t, errs)
	out := map[string]float64{}
	for _, f := range all {
		for _, m := range f.Metric {
			if f.GetName() == name {
				out[labels(m)] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func labels(m *dto.Metric) string {
	var out []string
	for _, l := range m.Label {
		out = append(out, l.GetValue())
	}
	return strings.Join(out, " ")
}

func withStatus(t *testing.T, line string) *Node {
	t.Helper()
	n := New(paths.Root(t.TempDir()))
	at := n.Root.At(paths.Status)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(t, os.WriteFile(at, []byte(line), 0o600))
	return n
}

func TestUnitsOfRolesAndThoseThatFailedAreTold(t *testing.T) {
	n := withStatus(t, `{"spore":1,"services":{"kafka.service":"active"}}`)
	n.Units = func(context.Context, []string) ([]dbus.UnitStatus, error) {
		return []dbus.UnitStatus{
			{Name: "kafka.service", ActiveState: "active"}, {Name: "spore-api.service", ActiveState: "activating"},
			{Name: "spore-look@1.service", ActiveState: "active"}, {Name: "ssh.service", ActiveState: "active"},
			{Name: "own.mount", ActiveState: "failed"}, {Name: "journal-upload@1.service", ActiveState: "activating"},
			{Name: "spore-gone.service", ActiveState: "inactive"},
		}, nil
	}
	n.Restarts = func(_ context.Context, services []string) ([]int, error) {
		require.Equal(t, []string{"journal-upload@1.service", "kafka.service", "spore-api.service", "spore-gone.service"}, services)
		return []int{7, 0, 2, -1}, nil
	}
	s := family.NewSink(Families())
	require.NoError(t, n.UnitStates(t.Context(), s))
	states := series(t, s, "node_systemd_unit_state")
	require.Len(t, states, 4*len(unitStates))
	require.Equal(t, 1.0, states["kafka.service active"])
	require.Equal(t, 0.0, states["kafka.service failed"])
	require.Equal(t, 1.0, states["spore-api.service activating"])
	require.Equal(t, 1.0, states["own.mount failed"])
	counts := map[string]float64{"active": 3, "activating": 2, "failed": 1, "inactive": 1, "deactivating": 0}
	require.Equal(t, counts, series(t, s, "node_systemd_units"))
	restarts := map[string]float64{"journal-upload@1.service": 7, "kafka.service": 0, "spore-api.service": 2}
	require.Equal(t, restarts, series(t, s, "node_systemd_service_restart_total"))
}

func TestSystemdThatDoesNotAnswer(t *testing.T) {
	n := withStatus(t, `{"spore":1}`)
	n.Units = func(context.Context, []string) ([]dbus.UnitStatus, error) { return nil, errors.New("the bus") }
	require.ErrorContains(t, n.UnitStates(t.Context(), family.NewSink(Families())), "list the units of systemd: the bus")
	n.Units = func(context.Context, []string) ([]dbus.UnitStatus, error) { return nil, nil }
	n.Restarts = func(context.Context, []string) ([]int, error) { return nil, errors.New("the bus") }
	require.ErrorContains(t, n.UnitStates(t.Context(), family.NewSink(Families())), "how often services were started again: the bus")
}

func TestAStatusLineThatIsMissingOrMalformed(t *testing.T) {
	s := family.NewSink(Families())
	require.ErrorContains(t, New(paths.Root(t.TempDir())).Line(s, time.Now()), "no status")
	require.ErrorContains(t, withStatus(t, `{"spore":`).Line(s, time.Now()), "read the status line")
	all, _ := s.Families()
	require.Empty(t, all)
}

func TestANodeThatWentBackSaysSo(t *testing.T) {
	n := withStatus(t, `{"spore":1,"configuration":{"problem":"x","staged":"y"},"clock":{"wrong":true},`+
		`"system":"degraded"}`)
	s := family.NewSink(Families())
	require.NoError(t, n.Line(s, time.Now().Add(time.Minute)))
	for name, want := range map[string]float64{
		"spore_configuration_withdrawn": 1, "spore_configuration_staged": 1, "spore_configuration_trial": 0,
		"spore_clock_wrong": 1, "spore_clock_synchronized": 0, "node_systemd_system_running": 0,
	} {
		require.Equal(t, map[string]float64{"": want}, series(t, s, name), name)
	}
	require.InDelta(t, 60, series(t, s, "spore_status_age_seconds")[""], 10)
}

func TestEndsOfCertificatesAndAuthorities(t *testing.T) {
	machines, _, tree := nodetest.BrokersWithKeys(t, "127.0.0.1")
	n := New(machines["kafka-1"].Root)
	put := func(path string, data []byte) {
		at := n.Root.At(path)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, data, 0o600))
	}
	put(paths.Trust+"/agent.crt", tree.Public().Files()["pki/agent.crt"])
	garbage := make([]byte, 1000)
	_, _ = rand.Read(garbage)
	put(paths.Secrets+"/api/broken-certificate", garbage)
	put(paths.Secrets+"/api/large-certificate", make([]byte, maxCertificate+1))
	s := family.NewSink(Families())
	require.NoError(t, n.Certificates(s))
	ends := series(t, s, "spore_certificate_end_timestamp_seconds")
	require.Greater(t, ends["agent api"], float64(time.Now().Unix()))
	require.NotContains(t, ends, "broken api")
	require.NotContains(t, ends, "large api")
	require.Len(t, series(t, s, "spore_authority_end_timestamp_seconds"), 1)
	require.NoError(t, New(paths.Root(t.TempDir())).Certificates(s), "a node without secrets")
}

func TestConditionsThatWereNotKnownInTimeAreNotTold(t *testing.T) {
	s := family.NewSink(Families())
	Health(s, nil)
	all, _ := s.Families()
	require.Empty(t, all)
	Health(s, []nodeapi.Condition{{Name: "a", State: nodeapi.Warning}, {Name: "b", State: "strange"}})
	require.Equal(t, map[string]float64{"a": 1}, series(t, s, "spore_condition"))
	require.Equal(t, map[string]float64{"": 1}, series(t, s, "spore_healthy"))
}
