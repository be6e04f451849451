package holder

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStateIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s := State{Address: "10.77.0.100", Holder: "master-01", Here: true}
	require.NoError(t, Write(path, s, time.Date(2026, 11, 22, 4, 0, 0, 7, time.UTC)))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, `{"address":"10.77.0.100","holder":"master-01","here":true,"since":"2026-11-22T04:00:00Z"}`+"\n", string(data))
	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, s, got.State)
	_, err = Read(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, Write("/proc/none/state.json", s, time.Now()), "tell who has the virtual address")
}

func TestAStateInWords(t *testing.T) {
	for want, s := range map[string]State{
		"this master has 10.77.0.100":            {Address: "10.77.0.100", Holder: "a", Here: true},
		"this master has 10.77.0.100; no leader": {Address: "10.77.0.100", Holder: "a", Here: true, Problem: "no leader"},
		"a has 10.77.0.100":                      {Address: "10.77.0.100", Holder: "a"},
		"waits for etcd":                         {Address: "10.77.0.100", Problem: "waits for etcd"},
	} {
		require.Equal(t, want, s.String())
	}
}
