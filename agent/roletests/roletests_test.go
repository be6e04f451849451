package roletests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/wire/nodeapi"
)

// open is the side of a connection whose other one is there.
func open(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

func results(t *testing.T, out *bytes.Buffer) []nodeapi.RoleTest {
	var all []nodeapi.RoleTest
	_, err := nodeapi.ReadRoleTests(out, role.MaxTests, func(r nodeapi.RoleTest) {
		r.Seconds = 0
		all = append(all, r)
	})
	require.NoError(t, err)
	return all
}

func TestEachTestSaysWhatCameOfIt(t *testing.T) {
	command := func(words ...string) []string { return words }
	d := &role.Definition{Name: "x", Tests: []role.Test{
		{Command: command("true")},
		{Command: command("echo", "+PONG"), Expect: "PONG"},
		{Command: command("sh", "-c", "echo to the other >&2"), Expect: "to the other"},
		{Command: command("echo", "NOAUTH"), Expect: "PONG"},
		{Command: command("sh", "-c", "echo one; echo two >&2; exit 3"), Expect: "one"},
		{Command: command("spore-no-such-program")},
		{Command: command("sh", "-c", "yes | head -c 70000; echo last"), Expect: "last"},
	}}
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), d, open(t), &out))
	all := results(t, &out)
	require.Len(t, all, len(d.Tests))
	for i, want := range []nodeapi.RoleTest{
		{}, {}, {}, {Problem: `echo did not print "PONG"`, Output: "NOAUTH"}, {Problem: "sh: exit status 3", Output: "one\ntwo"},
		{Problem: `spore-no-such-program: exec: "spore-no-such-program": executable file not found in $PATH`},
		{Problem: `sh did not print "last"`, Output: strings.TrimSpace(strings.Repeat("y\n", maxTold/2))},
	} {
		want.Command = d.Tests[i].Command
		require.Equal(t, want, all[i])
	}
}

func TestATestThatDoesNotEndIsEndedWithAllThatItStarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "late")
	began := time.Now()
	got := run(t.Context(), role.Test{Command: []string{"sh", "-c", "(sleep 1; touch " + file + ") & echo begun; wait"}}, 200*time.Millisecond)
	require.Equal(t, "sh did not end within 200ms", got.Problem)
	require.Equal(t, "begun", got.Output)
	require.Less(t, time.Since(began), 10*time.Second)
	time.Sleep(time.Until(began.Add(1500 * time.Millisecond)))
	require.NoFileExists(t, file)
}

func TestWhatAPassedTestLeavesRunningIsEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "late")
	began := time.Now()
	got := run(t.Context(), role.Test{Command: []string{"sh", "-c", "(sleep 1; touch " + file + ") >/dev/null 2>&1 & echo begun"}}, time.Minute)
	require.Empty(t, got.Problem)
	time.Sleep(time.Until(began.Add(1500 * time.Millisecond)))
	require.NoFileExists(t, file)
}

func TestTheEndOfTheTimeOfAllTestsIsNotThatOfOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got := run(ctx, role.Test{Command: []string{"sleep", "600"}}, time.Minute)
	require.Equal(t, "sleep did not end within the 10m0s that all tests of a role have together", got.Problem)
	got = run(ctx, role.Test{Command: []string{"sleep", "600"}}, time.Minute)
	require.Equal(t, "it was not run: the tests before it took 10m0s", got.Problem)
}

func TestTestsEndWithTheConnectionThatAskedForThem(t *testing.T) {
	d := &role.Definition{Name: "x", Tests: []role.Test{{Command: []string{"sleep", "600"}}, {Command: []string{"true"}}}}
	asked, gone := io.Pipe()
	go func() {
		time.Sleep(100 * time.Millisecond)
		gone.Close()
	}()
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), d, asked, &out))
	all := results(t, &out)
	require.Equal(t, "sleep: signal: killed", all[0].Problem)
	require.Contains(t, all[1].Problem, "it was not run")

	broken := func() io.Writer { _, w := io.Pipe(); w.CloseWithError(errors.New("gone")); return w }()
	require.ErrorContains(t, Run(t.Context(), &role.Definition{Name: "x", Tests: []role.Test{{Command: []string{"true"}}}}, open(t), broken), "tell what came of the tests of x: ")
}

func row(t *testing.T, dir string) api.Row {
	tested := &role.Definition{Name: "tested", Units: []string{"a.service"}, Tests: []role.Test{{Command: []string{"true"}}}}
	elsewhere := &role.Definition{Name: "elsewhere", Units: []string{"b.service"}, Tests: tested.Tests}
	untested := &role.Definition{Name: "untested", Units: []string{"c.service"}}
	l, err := services.With([]services.Definition{tested, elsewhere, untested})
	require.NoError(t, err)
	c := &facts.Cluster{Roles: l.Facts()}
	return Row(c, &facts.Node{Name: "a", Roles: []string{"tested", "untested"}}, func(p string) string { return filepath.Join(dir, filepath.Base(p)) })
}

func ask(ctx context.Context, row api.Row, name string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, nodeapi.RoleTestsPath+name, nil)
	r.SetPathValue("role", name)
	row.Handle(w, r, nodeapi.Caller{})
	return w
}

func TestTheAPIPassesOnWhatTheUnitSays(t *testing.T) {
	dir := t.TempDir()
	row := row(t, dir)
	require.Equal(t, []nodeapi.Role{nodeapi.Admin}, row.Who)
	require.True(t, row.Traced)
	for _, name := range []string{"elsewhere", "untested", "kafka-broker", "none"} {
		w := ask(t.Context(), row, name)
		require.Equal(t, http.StatusNotFound, w.Code)
		require.Equal(t, fmt.Sprintf("this node has no role %q with tests\n", name), w.Body.String())
	}
	w := ask(t.Context(), row, "tested")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "the tests of the role cannot be run, since it was not started: ")

	l, err := net.Listen("unix", filepath.Join(dir, "test-tested.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	hung := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = io.WriteString(conn, "{\"command\":[\"true\"]}\n")
			conn.Close()
		}
		if err != nil {
			hung <- err
			return
		}
		if conn, err = l.Accept(); err == nil { // The second one says nothing, and sees the end of whoever asked.
			_, err = conn.Read(make([]byte, 1))
		}
		hung <- err
	}()
	w = ask(t.Context(), row, "tested")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "{\"command\":[\"true\"]}\n", w.Body.String())
	require.True(t, w.Flushed)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	w = ask(ctx, row, "tested")
	require.Empty(t, w.Body.String())
	require.ErrorIs(t, <-hung, io.EOF)
}
