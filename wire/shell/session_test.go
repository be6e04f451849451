package shell

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASessionIsToldInOneLine(t *testing.T) {
	begun := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	for want, s := range map[string]Session{
		"a shell is open since 2026-11-26T08:00:00Z by anna (a test), not acknowledged: 0a": {Begun: begun},
		"a shell was open on 2026-11-26T08:00:00Z by anna (a test), not acknowledged: 0a": {
			Begun: begun, Result: "cut off",
		},
		"a shell was open on 2026-11-26T08:00:00Z by anna (a test), acknowledged by bert": {
			Begun: begun, Ended: begun, Acknowledged: begun, AcknowledgedBy: "bert",
		},
		"a shell was open (it cannot be read), not acknowledged: 0a": {Result: "it cannot be read"},
		"a shell was open (it cannot be read), acknowledged by bert": {
			Result: "it cannot be read", Acknowledged: begun, AcknowledgedBy: "bert",
		},
	} {
		s.ID, s.User, s.Reason = "0a", "anna", "a test"
		require.Equal(t, want, s.Text())
	}
}
