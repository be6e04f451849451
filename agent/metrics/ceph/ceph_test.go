package ceph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/family"
	"spore/agent/paths"
)

// recorded is what the monitor of Ceph 16.2.15 with two OSDs answered to commands.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + "-16.2.15.json")
	require.NoError(t, err)
	return data
}

// measure asks a monitor that leads and answers so.
func measure(t *testing.T, answer []byte) (map[string]float64, error) {
	t.Helper()
	c := &Ceph{
		leads: func(context.Context) (bool, error) { return true, nil },
		run: func(_ context.Context, commands string) ([]byte, error) {
			require.Equal(t, "status\nmon dump\nosd dump\ndf\n", commands)
			return answer, nil
		},
	}
	s := family.NewSink(Families())
	err := c.Measure(t.Context(), s)
	all, errs := s.Families()
	require.Empty(t, errs)
	return values(all), err
}

// values are those of series, by their names and the values of their labels.
func values(all []*dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, f := range all {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			out[name] = m.Gauge.GetValue()
		}
	}
	return out
}

func TestTheLeaderTellsHowTheClusterIs(t *testing.T) {
	got, err := measure(t, recorded(t, "healthy"))
	require.NoError(t, err)
	for name, want := range map[string]float64{
		"ceph_health_status": 1, "ceph_health_detail POOL_APP_NOT_ENABLED HEALTH_WARN": 1, "ceph_mon_quorum_status mon.a": 1,
		"ceph_osd_up osd.0": 1, "ceph_osd_up osd.1": 1, "ceph_osd_in osd.1": 1, "ceph_cluster_total_bytes": 2 << 30,
		"ceph_pg_degraded": 0, "ceph_num_objects_degraded": 0, "ceph_pool_metadata rbd 1": 1, "ceph_pool_stored 1": 19000000,
		"ceph_pool_objects 1": 6,
	} {
		require.Contains(t, got, name)
		require.InDelta(t, want, got[name], 0, name)
	}
	require.InDelta(t, 0.009336523711681366, got["ceph_pool_percent_used 1"], 1e-12)
	require.Equal(t, got["ceph_pg_total"], got["ceph_pg_clean"])
	for _, f := range Families() {
		require.Contains(t, join(got), f.Name)
	}
}

func join(m map[string]float64) string {
	var b strings.Builder
	for name := range m {
		b.WriteString(name + "\n")
	}
	return b.String()
}

func TestALostOSDIsTold(t *testing.T) {
	got, err := measure(t, recorded(t, "osd-down"))
	require.NoError(t, err)
	for name, want := range map[string]float64{
		"ceph_osd_up osd.0": 1, "ceph_osd_up osd.1": 0, "ceph_osd_in osd.1": 1, "ceph_health_detail OSD_DOWN HEALTH_WARN": 1,
		"ceph_pg_degraded": 4, "ceph_pg_undersized": 33, "ceph_pg_active": 33, "ceph_pg_clean": 0, "ceph_pg_total": 33,
		"ceph_num_objects_degraded": 4,
	} {
		require.Contains(t, got, name)
		require.InDelta(t, want, got[name], 0, name)
	}
}

func TestAMonitorThatDoesNotLeadAsksNobody(t *testing.T) {
	for name, why := range map[string]error{"it follows": nil, "it is in no quorum": errors.New("in no quorum")} {
		t.Run(name, func(t *testing.T) {
			c := &Ceph{leads: func(context.Context) (bool, error) { return false, why }}
			s := family.NewSink(Families())
			require.ErrorIs(t, c.Measure(t.Context(), s), why)
			all, errs := s.Families()
			require.Empty(t, all)
			require.Empty(t, errs)
		})
	}
}

func TestAnswersThatAreNotCephs(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"nothing":             {"", "it has 0 of 4 parts"},
		"one part":            {"{}", "it has 1 of 4 parts"},
		"text":                {"Error EACCES", "part 1: invalid character"},
		"an unknown health":   {`{"health":{"status":"FINE"}}{}{}{}`, `its health is "FINE"`},
		"a number is a text":  {`{"health":{"status":"HEALTH_OK"}}{}{"osds":[{"osd":"x"}]}{}`, "part 3"},
		"it ends in the half": {`{"health":{"status":"HEALTH_OK"}}{}{"osds":[{"osd":1}`, "part 3"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := measure(t, []byte(tt.answer))
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, got)
		})
	}
}

func TestAnAnswerHasABound(t *testing.T) {
	l := &limited{left: 3}
	n, err := l.Write([]byte("ab"))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.False(t, l.full)
	n, err = l.Write([]byte("cd"))
	require.NoError(t, err)
	require.Equal(t, 2, n, "the program is not stopped by it")
	require.True(t, l.full)
	require.Equal(t, "abc", l.String())
}

func TestOneAnswerHasBoundsOfWhatIsToldOneByOne(t *testing.T) {
	many := func(n int, of func(int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("," + of(i))
		}
		return b.String()[1:]
	}
	answer := fmt.Sprintf(`{"health":{"status":"HEALTH_OK","checks":{%s}}}{"mons":[%s],"quorum":[%s]}{"osds":[%s]}{"pools":[%s]}`,
		many(maxChecks+1, func(i int) string { return fmt.Sprintf(`"C%d":{}`, i) }),
		many(3000, func(i int) string { return fmt.Sprintf(`{"rank":%d,"name":"m%d"}`, i, i) }),
		many(3000, strconv.Itoa),
		many(maxOSDs+1, func(i int) string { return fmt.Sprintf(`{"osd":%d}`, i) }),
		many(maxPools+1, func(i int) string { return fmt.Sprintf(`{"id":%d,"name":"p%d"}`, i, i) }))
	s := family.NewSink(Families())
	require.NoError(t, tell([]byte(answer), s))
	all, errs := s.Families()
	require.Empty(t, errs)
	for _, f := range all {
		most := map[string]int{
			"ceph_health_detail": maxChecks, "ceph_mon_quorum_status": maxMons, "ceph_osd_up": maxOSDs, "ceph_osd_in": maxOSDs,
		}[f.GetName()]
		require.LessOrEqual(t, len(f.Metric), cmp.Or(most, maxPools), f.GetName())
	}
}

func TestAProgramThatHangsOrFailsIsAnError(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"it hangs": {"exec sleep 60", "signal: killed"},
		"it fails": {"echo no monitor answers >&2; exit 1", "exit status 1: \"no monitor answers\\n\""},
	} {
		t.Run(name, func(t *testing.T) {
			root := paths.Root(t.TempDir())
			require.NoError(t, os.MkdirAll(root.At("/usr/bin"), 0o755))
			require.NoError(t, os.WriteFile(root.At(program), []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755))
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := New(root).command(ctx, commands)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestANodeWithoutAMonitorIsNotAsked(t *testing.T) {
	require.True(t, On(ask.Question{Programs: []string{"ceph-mon"}}))
	require.False(t, On(ask.Question{Programs: []string{"ceph-osd"}}))
	_, err := New(paths.Root(t.TempDir())).askMonitor(t.Context())
	require.ErrorContains(t, err, "it does not run")
}

// FuzzTell has monitors answer anything.
func FuzzTell(f *testing.F) {
	f.Add(recorded(f, "healthy"))
	f.Add([]byte(`{"health":{"status":"HEALTH_OK"}}{"mons":[{"name":"a"},{"name":"a"}]}{"osds":[{"osd":1},{"osd":1}]}{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := family.NewSink(Families())
		if tell(data, s) != nil {
			return
		}
		all, _ := s.Families()
		for _, family := range all {
			require.LessOrEqual(t, len(family.Metric), 5000)
		}
	})
}
