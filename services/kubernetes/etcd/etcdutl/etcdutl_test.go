package etcdutl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What etcdutl itself does with snapshots is in test/services.

func TestWhatIsSaidOfASnapshot(t *testing.T) {
	s, err := parseStatus([]byte(`{"hash":2733116349,"revision":42,"totalKey":5,"totalSize":20480,"version":"3.6.0"}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, Status{42, 5}, s)
	for name, bad := range map[string]string{
		"nothing":                 "",
		"what people are shown":   "a2e6a3bd, 42, 5, 20 kB",
		"nothing of the revision": "{}",
		"a revision below zero":   `{"revision":-1}`,
		"keys below zero":         `{"revision":1,"totalKey":-1}`,
	} {
		_, err := parseStatus([]byte(bad))
		require.ErrorContains(t, err, "check a snapshot of etcd", name)
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(`{"hash":1,"revision":42,"totalKey":5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := parseStatus(data); err == nil {
			require.Positive(t, s.Revision)
		}
	})
}
