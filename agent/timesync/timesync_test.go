package timesync

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheServerIsThatOfTheStatusText(t *testing.T) {
	for status, want := range map[string]string{
		"Contacted time server 10.77.0.2:123 (10.77.0.2).":            "10.77.0.2",
		"Contacted time server 192.0.2.7:123 (0.pool.example.org).":   "192.0.2.7",
		"Contacted time server [2001:db8::7]:123 (ntp.example.org).":  "2001:db8::7",
		"Contacted time server [fe80::1%eth0]:123 (ntp.example.org).": "fe80::1",
		"Contacted time server [::ffff:192.0.2.7]:123 (x).":           "192.0.2.7",
		"Contacted time server 10.77.0.2 (10.77.0.2).":                "10.77.0.2",
		"Connecting to time server 10.77.0.2:123 (10.77.0.2).":        "invalid IP",
		"Contacted time server":                                       "invalid IP",
		"Contacted time server  (x).":                                 "invalid IP",
		"Contacted time server ntp.example.org:123 (x).":              "invalid IP",
		"Idle.": "invalid IP",
		"":      "invalid IP",
	} {
		require.Equal(t, want, Server(status).String(), status)
	}
}

func TestTheMarkSaysThatTheClockWasSet(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "synchronized")
	require.False(t, Set(mark))
	require.NoError(t, os.WriteFile(mark, nil, 0o644))
	require.True(t, Set(mark))
}

func TestChronySetsTheClockWhereItsFolderIs(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, "chrony.service", Keeper(dir))
	require.Equal(t, "systemd-timesyncd.service", Keeper(filepath.Join(dir, "sources.d")))
}

func FuzzServer(f *testing.F) {
	f.Add("Contacted time server 10.77.0.2:123 (10.77.0.2).")
	f.Add("Contacted time server [2001:db8::7]:123 (ntp.example.org).")
	f.Fuzz(func(t *testing.T, status string) {
		if a := Server(status); a.IsValid() {
			require.Empty(t, a.Zone())
			require.Equal(t, a, a.Unmap())
		}
	})
}
