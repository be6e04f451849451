package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/delivery"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/sealed"
	"spore/agent/status"
)

func TestStatusIsWhatTheDaemonWroteLast(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	_, err := statusCommand(m, false)
	require.ErrorContains(t, err, "there is no status yet")
	l := status.Line{Spore: 1, Cluster: "plant", Node: "a", Matched: &status.Matched{By: "mac", Value: "x"}, Roles: []string{"dns-server"}, System: "running"}
	require.NoError(t, os.WriteFile(m.Root.At(paths.Status), []byte(l.String()+"\n"), 0o644))
	line, err := statusCommand(m, true)
	require.NoError(t, err)
	require.Equal(t, l.String()+"\n", line)
	require.Contains(t, text(l), "node       a of cluster plant, by mac x\nsystem     running\nroles      dns-server\n")
	l.Bundle = &delivery.Info{Serial: 3, From: delivery.Medium, Sealed: sealed.TPM, Problem: "the bundle stays"}
	require.Contains(t, text(l), "bundle     3, from the boot medium, sealed to the TPM\n           the bundle stays\n")
	require.Contains(t, text(status.Line{Cluster: "plant", Problem: "who is it"}), "problem    who is it\n")
}
