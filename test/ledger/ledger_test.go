package ledger

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/events"
)

func TestTheLastLineNamesWhatWasSkipped(t *testing.T) {
	root := events.Skip{Package: "spore/test/nspawn", Test: "TestMasters", Reason: "only root may make namespaces"}
	soak := events.Skip{Package: "spore/test/nspawn", Test: "TestLong", Reason: "elsewhere: make soak"}
	web := events.Skip{Package: "m/web", Test: "TestA", Reason: "the kernel has no IPv6"}
	hint := "Those that take root run with: sudo env \"PATH=$PATH\" make test\n"
	for _, c := range []struct {
		name         string
		skips        []events.Skip
		uid          int
		details, end string
	}{
		{"nothing", nil, 1000, "", "0 skipped\n"},
		{"what something else runs", []events.Skip{soak}, 0,
			"1 run elsewhere: nspawn.TestLong (make soak)\n", "0 skipped\n"},
		{"without root", []events.Skip{soak, root}, 1000, "skipped nspawn.TestMasters: only root may make namespaces\n" +
			"1 run elsewhere: nspawn.TestLong (make soak)\n" + hint, "1 skipped: nspawn.TestMasters\n"},
		{"as root, for another reason, in two stages", []events.Skip{web, web}, 0,
			"skipped web.TestA: the kernel has no IPv6\n", "1 skipped: web.TestA\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			details, end := Skipped(c.skips, c.uid)
			require.Equal(t, c.details, details)
			require.Equal(t, c.end, end)
		})
	}
}

func TestAFileThatIsBrokenIsAnError(t *testing.T) {
	l := Ledger(t.TempDir())
	none, err := l.Skips()
	require.NoError(t, err)
	require.Empty(t, none)
	require.NoError(t, os.WriteFile(l.file(skips), []byte(`{"Package": "m"`), 0o644))
	_, err = l.Skips()
	require.ErrorContains(t, err, l.file(skips))
}

func TestFailuresOfTheSameNameHaveLogsOfTheirOwn(t *testing.T) {
	l := Ledger(filepath.Join(t.TempDir(), "run"))
	for _, pkg := range []string{"m/agent/ceph", "m/cluster/ceph"} {
		f := events.Failure{Kind: events.Failed, Package: pkg, Tests: []string{"TestA"}, Log: "of " + pkg}
		require.NoError(t, l.AddFailure(Failure{Stage: "one", Failure: f, Args: events.Args{Timeout: time.Minute}}))
	}
	all, err := l.Failures()
	require.NoError(t, err)
	require.Len(t, all, 2)
	for i, name := range []string{"ceph.TestA", "ceph.TestA-2"} {
		require.Equal(t, l.file(name+".first.log"), all[i].File)
		require.Equal(t, l.file(name+".second.log"), all[i].Beside(".second.log"))
		data, err := os.ReadFile(all[i].File)
		require.NoError(t, err)
		require.Equal(t, "of "+all[i].Package, string(data))
		require.Equal(t, time.Minute, all[i].Args.Timeout)
	}
}

func TestNamesOfFailures(t *testing.T) {
	for want, f := range map[string]events.Failure{
		"e2e.TestA":      {Kind: events.Failed, Package: "spore/test/e2e", Tests: []string{"TestA"}},
		"e2e.unfinished": {Kind: events.Unfinished, Package: "spore/test/e2e", Tests: []string{"TestA", "TestB"}},
		"e2e":            {Kind: events.Broken, Package: "spore/test/e2e"},
		"nonexist":       {Kind: events.Broken, Package: "./nonexist"},
		"gotest":         {Kind: events.Broken},
	} {
		require.Equal(t, want, Failure{Failure: f}.Name())
	}
}

func TestBeginForgetsTheLastRunAndNothingElse(t *testing.T) {
	now := time.Now().Round(0)
	l := Ledger(filepath.Join(t.TempDir(), "run"))
	require.NoError(t, l.Begin(now.Add(-time.Hour)))
	require.NoError(t, l.AddStage(Stage{Name: "one", Wall: time.Second}))
	require.NoError(t, l.Begin(now))
	all, err := l.Stages()
	require.NoError(t, err)
	require.Empty(t, all)
	began, err := l.Began()
	require.NoError(t, err)
	require.True(t, now.Equal(began))

	other := Ledger(t.TempDir())
	keep := filepath.Join(string(other), "work")
	require.NoError(t, os.WriteFile(keep, nil, 0o644))
	require.ErrorContains(t, other.Begin(now), "another program")
	require.FileExists(t, keep)
}
