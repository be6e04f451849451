package nodeapi

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	someHash  = "00112233445566778899aabbccddeeff"
	aSnapshot = "etcd-20261122T120000Z-r1234-master-1-" + someHash + ".age"
)

var snapshotNoon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestNamesOfSnapshots(t *testing.T) {
	n := SnapshotName{snapshotNoon, 1234, "master-1", someHash}
	text := "etcd-20261122T120000Z-r1234-master-1-" + someHash + ".age"
	require.Equal(t, text, n.String())
	got, err := ParseSnapshotName(text)
	require.NoError(t, err)
	require.Equal(t, n, got)
	for name, bad := range map[string]string{
		"nothing":                 "",
		"no ending":               strings.TrimSuffix(text, ".age"),
		"a path":                  "../" + text,
		"a path as node":          strings.Replace(text, "master-1", "../x", 1),
		"no node":                 strings.Replace(text, "master-1-", "", 1),
		"an empty node":           strings.Replace(text, "master-1", "", 1),
		"a time that is none":     strings.Replace(text, "1122T", "1322T", 1),
		"a time of another place": strings.Replace(text, "Z-r", "+0100-r", 1),
		"a revision with a sign":  strings.Replace(text, "r1234", "r+1234", 1),
		"a revision below zero":   strings.Replace(text, "r1234", "r-1234", 1),
		"a revision too large":    strings.Replace(text, "r1234", "r99999999999999999999", 1),
		"leading zeros":           strings.Replace(text, "r1234", "r01234", 1),
		"a hash too short":        strings.Replace(text, someHash, someHash[2:], 1),
		"a hash in capitals":      strings.Replace(text, someHash, strings.ToUpper(someHash), 1),
		"a draft":                 ".draft-" + text,
		"a line end":              text + "\n",
	} {
		_, err := ParseSnapshotName(bad)
		require.ErrorContains(t, err, "is not the name of a snapshot", name)
	}
}

func FuzzParseSnapshotName(f *testing.F) {
	f.Add("etcd-20261122T120000Z-r1234-master-1-" + someHash + ".age")
	f.Add("etcd--r-..-/.age")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSnapshotName(s)
		if err != nil {
			return
		}
		require.Equal(t, s, n.String())
		require.Equal(t, s, filepath.Base(s))
		require.NotContains(t, s, "/")
		require.False(t, strings.HasPrefix(s, "."))
	})
}

func FuzzReadSnapshots(f *testing.F) {
	f.Add(`{"snapshots":[{"name":"` + aSnapshot + `","size":1}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ReadSnapshots(strings.NewReader(s))
		if err != nil {
			return
		}
		for _, e := range list {
			require.Positive(t, e.Size)
			_, err := ParseSnapshotName(e.Name.String())
			require.NoError(t, err)
		}
	})
}

func TestTheListOfSnapshots(t *testing.T) {
	n, err := ParseSnapshotName(aSnapshot)
	require.NoError(t, err)
	for _, list := range [][]Snapshot{nil, {{n, 7}}} {
		got, err := ReadSnapshots(strings.NewReader(string(EncodeSnapshots(list))))
		require.NoError(t, err)
		require.Equal(t, list, got)
	}
	require.Equal(t, `{"snapshots":[]}`+"\n", string(EncodeSnapshots(nil)))
}
