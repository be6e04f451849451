package majority

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/datadisk"
	"spore/agent/formation"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/agent/verbs"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// asked has a node ask for its absence; away are the members that do not serve.
func asked(t *testing.T, m *node.Machine, o nodeapi.Order, a Absence, away ...string) (said []string, left bool, err error) {
	t.Helper()
	handle := func(ctx context.Context, r *verbs.Run) (string, error) {
		g := guard{run: r, ask: func(_ context.Context, node, service string) (nodeapi.Member, error) {
			require.Equal(t, "kafka", service)
			for _, name := range away {
				switch node {
				case name:
					return nodeapi.Member{Service: service, Reason: "it waits"}, nil
				case strings.TrimPrefix(name, "leaving "):
					return nodeapi.Member{Service: service, Reason: "it leaves", Leaving: true}, nil
				case strings.TrimPrefix(name, "silent "):
					return nodeapi.Member{}, errors.New("no answer in time")
				}
			}
			return nodeapi.Member{Service: service, Serves: true}, nil
		}}
		back, err := g.leave(ctx, a)
		left = Leaves(m)
		back()
		require.False(t, Leaves(m))
		return "left", err
	}
	call, err := json.Marshal(verbs.Call{Verb: "reboot", Roles: nodeapi.Hands(), Order: o})
	require.NoError(t, err)
	var out strings.Builder
	handlers := map[string]verbs.Handler{"reboot": handle}
	require.NoError(t, verbs.Serve(t.Context(), m, nodeapi.Acts, handlers, strings.NewReader(string(call)+"\n"), &out))
	_, err = nodeapi.ReadEvents(strings.NewReader(out.String()), func(e nodeapi.Event) error {
		said = append(said, e.Say)
		return nil
	})
	return said, left, err
}

// serves writes the status line of a broker.
func serves(t *testing.T, m *node.Machine, state string) {
	t.Helper()
	line := status.Line{Spore: 1, Services: map[string]string{"kafka.service": state}}
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Status), line))
}

func TestAQuorumKeepsItsMajority(t *testing.T) {
	const needs = "a restart takes kafka below its majority: without kafka-1 1 of 3 members serve (kafka-3), not kafka-2 (it waits), " +
		"and 2 are needed; --force kafka does it nevertheless"
	machines := map[int]*node.Machine{}
	for n := 1; n <= 3; n++ {
		machines[n] = nodetest.Brokers(t, []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}[:n]...)["kafka-1"]
	}
	comes, stays := Absence{What: "a restart", Returns: true}, Absence{What: "a shutdown"}
	for _, tc := range []struct {
		name    string
		brokers int
		own     string
		away    []string
		absence Absence
		force   string
		said    string
		refused string
	}{
		{"all others serve", 3, "active", nil, comes, "", "", ""},
		{"all others serve, for good", 3, "active", nil, stays, "", "", ""},
		{"one is away", 3, "active", []string{"kafka-2"}, comes, "", "", needs},
		{"one does not answer", 3, "active", []string{"silent kafka-2"}, stays, "", "", "kafka-2 (no answer in time), and 2 are needed"},
		{"one is away, by force", 3, "active", []string{"kafka-2"}, comes, "kafka", "kafka is below its majority from now on", ""},
		{"the force of another quorum", 3, "active", []string{"kafka-2"}, comes, "etcd", "", "etcd is not a quorum that this takes a member of; it takes one of kafka"},
		{"this one does not serve and comes back", 3, "activating", []string{"kafka-2"}, comes, "", "kafka has no majority that needs this node", ""},
		{"this one does not serve and goes", 3, "activating", []string{"kafka-2"}, stays, "", "", "a shutdown takes kafka below its majority"},
		{"all would leave at once", 3, "active", []string{"leaving kafka-2", "leaving kafka-3"}, comes, "", "", "0 of 3 members serve, not kafka-2 (it leaves), kafka-3 (it leaves), and 2 are needed"},
		{"one leaves, and one is away", 3, "active", []string{"leaving kafka-2", "kafka-3"}, comes, "", "", "0 of 3 members serve"},
		{"there is no majority, and it comes back", 3, "active", []string{"kafka-2", "silent kafka-3"}, comes, "", "0 of 3 members serve, not kafka-2", ""},
		{"there is no majority, and it goes", 3, "active", []string{"kafka-2", "kafka-3"}, stays, "", "", "0 of 3 members serve"},
		{"one of two", 2, "active", nil, comes, "", "", "1 of 2 members serve (kafka-2), and 2 are needed"},
		{"the only one comes back", 1, "active", nil, comes, "", "this node is the only member of kafka, which stands still meanwhile", ""},
		{"the only one goes", 1, "active", nil, stays, "", "", "a shutdown takes away the only member of kafka; --force kafka does it nevertheless"},
		{"the only one goes, by force", 1, "active", nil, stays, "kafka", "", ""},
		{"another quorum", 3, "active", []string{"kafka-2"}, Absence{What: "x", Concerns: func(formation.Service) bool { return false }}, "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machines[tc.brokers]
			m.Say = func(s string) { t.Log(s) }
			serves(t, m, tc.own)
			said, left, err := asked(t, m, nodeapi.Order{Force: tc.force}, tc.absence, tc.away...)
			if tc.refused != "" {
				require.ErrorContains(t, err, tc.refused)
				require.False(t, left)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.absence.Concerns == nil, left, "the others hear of it")
			require.Contains(t, strings.Join(said, "\n"), tc.said)
			if tc.said == "" {
				require.Empty(t, said)
			}
		})
	}
}

func TestANodeThatDoesNotKnowItselfIsTakenForOneThatServes(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")["kafka-1"]
	_, left, err := asked(t, m, nodeapi.Order{}, Absence{What: "a restart", Returns: true}, "kafka-2")
	require.ErrorContains(t, err, "a restart takes kafka below its majority")
	require.False(t, left)
}

func TestSeveralQuorumsAreForcedByOneOrder(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")["kafka-1"]
	serves(t, m, "active")
	require.NoError(t, os.MkdirAll(m.Root.At(paths.Disks), 0o755))
	require.NoError(t, datadisk.Write(m.Root, datadisk.OSD, []datadisk.Info{{Use: datadisk.OSD, Number: 1}}))
	require.NoError(t, os.MkdirAll(m.Root.At(paths.OSDs+"/1"), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At(paths.OSDs+"/1/osd.env"), []byte("OSD_ID=4\n"), 0o644))
	for force, want := range map[string][]string{
		"": {
			"a shutdown takes away osd.4, and whether Ceph bears that is not known", "a shutdown takes kafka below its majority",
			"--force ceph-osd,kafka does all of that nevertheless",
		},
		"kafka":          {"takes away osd.4"},
		"ceph-osd":       {"takes kafka below its majority"},
		"kafka,etcd":     {"etcd is not a quorum that this takes a member of; it takes one of kafka, ceph-osd"},
		"ceph-osd,kafka": nil,
	} {
		_, _, err := asked(t, m, nodeapi.Order{Force: force}, Absence{What: "a shutdown"}, "kafka-2")
		if want == nil {
			require.NoError(t, err)
			continue
		}
		for _, text := range want {
			require.ErrorContains(t, err, text, "--force %s", force)
		}
		if len(want) == 1 {
			require.NotContains(t, err.Error(), "does all of that")
		}
	}
}

func TestALookLeavesNoMark(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")["kafka-1"]
	serves(t, m, "active")
	_, left, err := asked(t, m, nodeapi.Order{DryRun: true}, Absence{What: "x"})
	require.NoError(t, err)
	require.False(t, left)
}

func TestAMarkThatWasLeftBehindDoesNotCountForEver(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	m.Mark(paths.Leaving, true)
	require.True(t, Leaves(m))
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(m.Root.At(paths.Leaving), old, old))
	require.False(t, Leaves(m))
}
