package majority

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/datadisk"
	"spore/agent/formation"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// storage is a machine with two OSDs, 3 and 4, and a disk of which no OSD was made yet.
func storage(t *testing.T) *node.Machine {
	t.Helper()
	m := node.New("test", paths.Root(t.TempDir()))
	m.Say = func(text string) { t.Log(text) }
	infos := []datadisk.Info{{Use: datadisk.OSD, Number: 1}, {Use: datadisk.OSD, Number: 2}, {Use: datadisk.OSD, Number: 3}}
	require.NoError(t, os.MkdirAll(m.Root.At(paths.Disks), 0o755))
	require.NoError(t, datadisk.Write(m.Root, datadisk.OSD, infos))
	for number, id := range map[int]int{1: 4, 2: 3} {
		dir := m.Root.At(fmt.Sprintf("%s/%d", paths.OSDs, number))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(dir+"/osd.env", fmt.Appendf(nil, "OSD_ID=%d\n", id), 0o644))
	}
	return m
}

func TestCephIsAskedBeforeItsOSDsGo(t *testing.T) {
	const unsafe = "EBUSY: unsafe to stop osd(s) at this time (2 PGs are or would become offline)"
	both, one := []int{3, 4}, []int{4}
	comes, goes := Absence{What: "a restart of the machine", Returns: true}, Absence{What: "a shutdown"}
	unit := func(name string, returns, destroys bool) Absence {
		return Absence{
			What: "it", Returns: returns, Destroys: destroys, Concerns: func(formation.Service) bool { return false },
			OSDs: func(unit string) bool { return unit == name },
		}
	}
	for _, tc := range []struct {
		name    string
		absence Absence
		answer  nodeapi.OSDsAnswer
		fails   bool
		force   string
		asked   string
		said    string
		refused string
	}{
		{"it bears it", goes, nodeapi.OSDsAnswer{Running: both, Others: 4}, false, "", "3,4 stop", "", ""},
		{"it does not", goes, nodeapi.OSDsAnswer{Running: both, Others: 4, Unsafe: unsafe}, false, "", "3,4 stop", "",
			"a shutdown takes away osd.3, osd.4, and Ceph does not bear that: " + unsafe + "; wait until spore ceph status shows no " +
				"degraded data, or --force ceph-osd does it nevertheless"},
		{"it does not, and it comes back", comes, nodeapi.OSDsAnswer{Running: both, Others: 1, Unsafe: unsafe}, false, "", "3,4 stop", "",
			"a restart of the machine takes away osd.3, osd.4"},
		{"by force", comes, nodeapi.OSDsAnswer{Running: both, Others: 1, Unsafe: unsafe}, false, "ceph-osd", "3,4 stop", "Ceph does not bear it: " + unsafe, ""},
		{"by another force", comes, nodeapi.OSDsAnswer{}, false, "kafka", "", "", "kafka is not a quorum that this takes a member of; it takes one of ceph-osd"},
		{"there are no others, and they come back", comes, nodeapi.OSDsAnswer{Running: both, Unsafe: unsafe}, false, "", "3,4 stop",
			"this node has all OSDs of Ceph that serve (osd.3, osd.4), which stand still meanwhile", ""},
		{"there are no others, and they go", goes, nodeapi.OSDsAnswer{Running: both, Unsafe: unsafe}, false, "", "3,4 stop", "", "and Ceph does not bear that"},
		{"none of them serves", goes, nodeapi.OSDsAnswer{Others: 2, Unsafe: unsafe}, false, "", "3,4 stop", "", ""},
		{"nobody answers", comes, nodeapi.OSDsAnswer{}, true, "", "3,4 stop", "",
			"whether Ceph bears that is not known: no monitor answers: mon-1 (no answer in time), mon-2 (no answer in time); --force ceph-osd does it nevertheless"},
		{"nobody answers, by force", comes, nodeapi.OSDsAnswer{}, true, "ceph-osd", "3,4 stop", "whether Ceph bears that is not known: no monitor answers", ""},
		{"one OSD restarts", unit("ceph-osd-disk@1.service", true, false), nodeapi.OSDsAnswer{Running: one, Others: 1}, false, "", "4 stop", "", ""},
		{"a disk is deleted", unit("ceph-osd-disk@1.service", false, true), nodeapi.OSDsAnswer{Running: one, Others: 1, Unsafe: "EBUSY: OSD(s) 4 have 9 pgs"}, false, "", "4 destroy", "", "have 9 pgs"},
		{"a disk of one that is down is deleted", unit("ceph-osd-disk@1.service", false, true), nodeapi.OSDsAnswer{Others: 1, Unsafe: "EBUSY: last copy"}, false, "", "4 destroy", "",
			"last copy; have its data moved first (spore ceph osd-out NUMBER), or --force ceph-osd deletes it nevertheless"},
		{"a disk without an OSD", unit("ceph-osd-disk@3.service", true, false), nodeapi.OSDsAnswer{}, true, "", "", "", ""},
		{"another unit restarts", unit("mosquitto.service", true, false), nodeapi.OSDsAnswer{}, true, "", "", "", ""},
		{"a quorum alone is left", Absence{What: "x", Concerns: func(formation.Service) bool { return true }}, nodeapi.OSDsAnswer{}, true, "", "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := storage(t)
			c := &facts.Cluster{Members: map[string][]string{"ceph-mon": {"mon-1", "mon-2"}, "ceph-osd": {"storage-1"}}}
			var out strings.Builder
			asked := make(chan string, 2)
			g := guard{
				run: verbs.For(m, c, &facts.Node{Name: "storage-1", Roles: []string{"ceph-osd"}}, nodeapi.Order{Force: tc.force}, &out),
				safe: func(_ context.Context, node string, o nodeapi.Order) (nodeapi.OSDsAnswer, error) {
					verb, found := nodeapi.FindVerb(nodeapi.OSDSafe)
					require.True(t, found)
					require.NoError(t, verb.Check(o))
					asked <- o.Arguments["osds"] + " " + o.Arguments["to"]
					if tc.fails || node == "mon-2" {
						return nodeapi.OSDsAnswer{}, errors.New("no answer in time")
					}
					return tc.answer, nil
				},
			}
			_, err := g.leave(t.Context(), tc.absence)
			close(asked)
			question := ""
			for q := range asked {
				question = q
			}
			require.Equal(t, tc.asked, question)
			if tc.refused != "" {
				require.ErrorContains(t, err, tc.refused)
				return
			}
			require.NoError(t, err)
			require.Contains(t, out.String(), tc.said)
			if tc.said == "" {
				require.Empty(t, out.String())
			}
		})
	}
}

// asks is a guard of that machine, whose monitor answers by a test.
func asks(m *node.Machine, force string, safe func(o nodeapi.Order) nodeapi.OSDsAnswer) (guard, *strings.Builder) {
	var out strings.Builder
	c := &facts.Cluster{Members: map[string][]string{"ceph-mon": {"mon-1"}, "ceph-osd": {"storage-1"}}}
	n := &facts.Node{Name: "storage-1", Roles: []string{"ceph-osd"}}
	return guard{
		run:  verbs.For(m, c, n, nodeapi.Order{Force: force}, &out),
		safe: func(_ context.Context, _ string, o nodeapi.Order) (nodeapi.OSDsAnswer, error) { return safe(o), nil },
	}, &out
}

func TestTheDiskOfAnOSDThatDoesNotRunIsLookedAtBeforeItIsDeleted(t *testing.T) {
	m := storage(t)
	label, err := os.ReadFile("../../../services/ceph/osd/testdata/labels/ready")
	require.NoError(t, err)
	damaged := bytes.Clone(label)
	damaged[100] ^= 1
	devices := map[int][]byte{1: label, 2: damaged, 3: make([]byte, len(label))}
	infos, err := datadisk.Read(m.Root, datadisk.OSD)
	require.NoError(t, err)
	for i := range infos {
		infos[i].Device = fmt.Sprintf("/dev/disk-%d", infos[i].Number)
		path := m.Root.At(infos[i].Device)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, devices[infos[i].Number], 0o600))
	}
	require.NoError(t, datadisk.Write(m.Root, datadisk.OSD, infos))
	require.NoError(t, os.RemoveAll(m.Root.At(paths.OSDs)), "their units have stopped")
	for number, want := range map[int]string{1: "takes away osd.0, and Ceph does not bear that: last copy", 2: "is damaged; --force ceph-osd does it", 3: ""} {
		unit := fmt.Sprintf("ceph-osd-disk@%d.service", number)
		a := Absence{
			What: "a reset", Destroys: true, Concerns: func(formation.Service) bool { return false },
			OSDs: func(u string) bool { return u == unit },
		}
		for _, force := range []string{"", "ceph-osd"} {
			g, _ := asks(m, force, func(o nodeapi.Order) nodeapi.OSDsAnswer {
				require.Equal(t, map[string]string{"osds": "0", "to": "destroy"}, o.Arguments)
				return nodeapi.OSDsAnswer{Unsafe: "last copy"}
			})
			_, err := g.leave(t.Context(), a)
			switch {
			case want == "" && force != "":
				require.ErrorContains(t, err, "it takes one of none")
			case want == "" || force != "":
				require.NoError(t, err)
			default:
				require.ErrorContains(t, err, want)
			}
		}
	}
}

func TestCephIsAskedAgainWhileOSDsOfAnotherNodeComeBack(t *testing.T) {
	for _, tc := range []struct {
		name    string
		returns bool
		force   string
		asked   int
		refused bool
	}{{"it comes back", true, "", 3, false}, {"it goes", false, "", 1, true}, {"by force", true, "ceph-osd", 1, false}} {
		asked := 0
		g, out := asks(storage(t), tc.force, func(nodeapi.Order) nodeapi.OSDsAnswer {
			if asked++; asked < 3 {
				return nodeapi.OSDsAnswer{Running: []int{3, 4}, Others: 2, Unsafe: "EBUSY"}
			}
			return nodeapi.OSDsAnswer{Running: []int{3, 4}, Others: 4}
		})
		g.patience, g.every = time.Hour, time.Millisecond
		_, err := g.leave(t.Context(), Absence{What: "it", Returns: tc.returns})
		require.Equal(t, tc.refused, err != nil, "%s: %v", tc.name, err)
		require.Equal(t, tc.asked, asked, tc.name)
		require.Equal(t, tc.asked > 1, strings.Contains(out.String(), "is asked again for 1h0m0s: EBUSY"), tc.name)
	}
	g, _ := asks(storage(t), "", func(nodeapi.Order) nodeapi.OSDsAnswer {
		return nodeapi.OSDsAnswer{Running: []int{3, 4}, Others: 2, Unsafe: "EBUSY"}
	})
	g.patience, g.every = time.Second, time.Millisecond
	_, err := g.leave(t.Context(), Absence{What: "it", Returns: true})
	require.ErrorContains(t, err, "Ceph does not bear that: EBUSY", "not for ever")
}

func TestACephWithoutMonitorsIsOneThatDoesNotAnswer(t *testing.T) {
	var out strings.Builder
	g := guard{run: verbs.For(storage(t), &facts.Cluster{}, &facts.Node{Name: "storage-1"}, nodeapi.Order{}, &out)}
	_, err := g.leave(t.Context(), Absence{What: "a shutdown"})
	require.ErrorContains(t, err, "cluster.yaml has no node with a monitor; --force ceph-osd does it nevertheless")
}

func TestWhatAMonitorsNodeAnswersIsRead(t *testing.T) {
	want := nodeapi.OSDsAnswer{Running: []int{1}, Others: 2, Unsafe: "x"}
	data, err := json.Marshal(want)
	require.NoError(t, err)
	got, err := parseOSDs(strings.NewReader("\n{\"say\":\"-\"}\n{\"result\":" + string(data) + "}\n{\"done\":\"-\"}\n"))
	require.NoError(t, err)
	require.Equal(t, want, got)
	for text, want := range map[string]string{
		"":                                   "no end",
		"{\"done\":\"-\"}\n":                 "says nothing of OSDs",
		"{\"result\":7}\n{\"done\":\"-\"}\n": "cannot unmarshal",
		"{\"error\":\"no\"}\n":               "no",
	} {
		_, err := parseOSDs(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseOSDs(f *testing.F) {
	f.Add([]byte("{\"result\":{\"running\":[1],\"others\":2}}\n{\"done\":\"-\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = parseOSDs(strings.NewReader(string(data))) })
}
