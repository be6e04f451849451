package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/status"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

func TestAShellThatNobodyHasAcknowledgedIsAWarning(t *testing.T) {
	is, reason := shells(Input{})
	require.Empty(t, is)
	require.Empty(t, reason)
	begun := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	is, reason = shells(Input{Line: status.Line{Shells: []shell.Session{
		{ID: "0a", User: "anna", Reason: "a test", Begun: begun, Ended: begun.Add(time.Minute), Result: "exit status 0"},
		{ID: "0b", User: "bert", Reason: "another", Begun: begun},
	}}})
	require.Equal(t, nodeapi.Warning, is)
	require.Equal(t, "a shell was open on 2026-11-26T08:00:00Z by anna (a test), not acknowledged: 0a; "+
		"a shell is open since 2026-11-26T08:00:00Z by bert (another), not acknowledged: 0b", reason)
}
