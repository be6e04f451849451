package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/command"
	"spore/agent/nodetest"
	"spore/cluster/role"
	"spore/cluster/role/unit"
)

func TestWrongUsageSaysWhatToWrite(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	for _, line := range []string{"", "render", "files", "files a b", "files -x"} {
		err := table(m).Dispatch(t.Context(), strings.Fields(line), new(bytes.Buffer))
		require.Equal(t, 2, command.Status(err), "%q: %v", line, err)
		require.Regexp(t, "(?i)usage: spore-role ", err.Error(), line)
	}
	var out bytes.Buffer
	require.NoError(t, table(m).Dispatch(t.Context(), []string{"files", "--help"}, &out))
	require.Contains(t, out.String(), "Usage: spore-role files NAME")
}

// What units call is what there is.
func TestUnitsOfARoleCallIt(t *testing.T) {
	d := &role.Definition{Name: "x", Units: []string{"x.service"}, Files: []role.File{{Path: "/run/x/x", Template: "x.tmpl"}}}
	require.Contains(t, unit.DropIns(d)["x.service.d/"+unit.DropIn], "\nExecStartPre=+/usr/bin/spore-role files x\n")
	require.Equal(t, []string{"spore-role"}, d.Service().Programs[0].Own)
}

func TestTheUnitOfHealthCallsIt(t *testing.T) {
	d := &role.Definition{Name: "x", Units: []string{"x.service"}, User: &role.User{Name: "x"}, Health: &role.Health{Command: []string{"true"}}}
	require.Contains(t, unit.Files(d)["/etc/systemd/system/spore-health-x.service"], "\nExecStart=/usr/bin/spore-role health x\n")
	require.Equal(t, []string{"spore-role"}, d.Service().Programs[0].Own)
	d.Health = &role.Health{Journal: "Ready"}
	require.NotContains(t, unit.Files(d), "/etc/systemd/system/spore-health-x.service")
	require.Empty(t, d.Service().Programs[0].Own)
}

func TestARoleThatThereIsNotHasNoHealth(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	require.Error(t, askHealth(t.Context(), m, "x"), "a machine that is no node")
	m = nodetest.Brokers(t, "10.77.0.11")["kafka-1"]
	require.EqualError(t, askHealth(t.Context(), m, "x"), `ask the role "x" for its health: the configuration has no role of its own of this name`)
}

func TestTheUnitOfTestsCallsIt(t *testing.T) {
	d := &role.Definition{Name: "x", Units: []string{"x.service"}, User: &role.User{Name: "x"}, Tests: []role.Test{{Command: []string{"true"}}}}
	files := unit.Files(d)
	require.Contains(t, files["/etc/systemd/system/spore-test-x@.service"], "\nExecStart=/usr/bin/spore-role tests x\n")
	require.Contains(t, files["/etc/systemd/system/spore-test-x.socket"], "\nListenStream=/run/spore/test-x.sock\n")
	require.Contains(t, files["/etc/systemd/system/x.target"], "\nWants=spore-test-x.socket\n")
	require.Equal(t, []string{"spore-role"}, d.Service().Programs[0].Own)
}

func TestARoleThatThereIsNotHasNoTests(t *testing.T) {
	m := nodetest.Brokers(t, "10.77.0.11")["kafka-1"]
	err := runTests(t.Context(), m, "x", strings.NewReader(""), new(bytes.Buffer))
	require.EqualError(t, err, `run the tests of the role "x": the configuration has no role of its own of this name`)
}
