package room

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lay makes a part of so many KiB, as the store does.
func lay(t *testing.T, dir, month, kind, name string, last time.Time, kib int) {
	t.Helper()
	at := filepath.Join(dir, "data", kind, month, name)
	require.NoError(t, os.MkdirAll(at, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data/small", month), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(at, "values.bin"), make([]byte, kib<<10), 0o600))
	header := fmt.Sprintf(`{"RowsCount":1,"BlocksCount":1,"MinTimestamp":0,"MaxTimestamp":%d,"MinDedupInterval":0}`, last.UnixMilli())
	require.NoError(t, os.WriteFile(filepath.Join(at, "metadata.json"), []byte(header), 0o600))
	file := filepath.Join(dir, "data/small", month, "parts.json")
	var l list
	if text, err := os.ReadFile(file); err == nil {
		require.NoError(t, json.Unmarshal(text, &l))
	}
	if kind == "small" {
		l.Small = append(l.Small, name)
	} else {
		l.Big = append(l.Big, name)
	}
	text, err := json.Marshal(l)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// shelf is a folder of three months: 100 KiB of September, 200 KiB of October, 110 KiB of November.
func shelf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	day := func(m time.Month, d int) time.Time { return time.Date(2026, m, d, 12, 0, 0, 0, time.UTC) }
	lay(t, dir, "2026_09", "big", "A1", day(9, 20), 100)
	lay(t, dir, "2026_10", "big", "B1", day(10, 5), 100)
	lay(t, dir, "2026_10", "small", "B2", day(10, 20), 100)
	lay(t, dir, "2026_11", "big", "C1", day(11, 21).Add(-6*time.Hour), 100)
	lay(t, dir, "2026_11", "small", "C2", day(11, 21), 10)
	for _, m := range []string{"2026_09", "2026_10", "2026_11"} {
		write(t, filepath.Join(dir, "data/indexdb", m, "parts.json"), `["I1"]`)
		write(t, filepath.Join(dir, "data/indexdb", m, "I1/items.bin"), strings.Repeat("x", 8<<10))
	}
	write(t, filepath.Join(dir, "cache/metricName_tsid/data"), "x")
	return dir
}

func has(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"data/*/*/[A-Z]*", "cache", going} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, f := range found {
			name, err := filepath.Rel(dir, f)
			require.NoError(t, err)
			out = append(out, name)
		}
	}
	return out
}

func TestTheOldestPartsGoUntilTheRestKeepsToTheBound(t *testing.T) {
	all := []string{
		"data/big/2026_09/A1", "data/big/2026_10/B1", "data/big/2026_11/C1", "data/indexdb/2026_09/I1", "data/indexdb/2026_10/I1",
		"data/indexdb/2026_11/I1", "data/small/2026_10/B2", "data/small/2026_11/C2", "cache",
	}
	for name, c := range map[string]struct {
		limits Limits
		want   []string
	}{
		"no bound":           {Limits{}, all},
		"a bound with room":  {Limits{Bytes: 1 << 20}, all},
		"a month too much":   {Limits{Bytes: 450 << 10}, []string{"data/big/2026_10/B1", "data/big/2026_11/C1", "data/indexdb/2026_10/I1", "data/indexdb/2026_11/I1", "data/small/2026_10/B2", "data/small/2026_11/C2"}},
		"half a month":       {Limits{Bytes: 360 << 10}, []string{"data/big/2026_11/C1", "data/indexdb/2026_10/I1", "data/indexdb/2026_11/I1", "data/small/2026_10/B2", "data/small/2026_11/C2"}},
		"room for the day":   {Limits{Bytes: 60 << 10}, []string{"data/indexdb/2026_11/I1", "data/small/2026_11/C2"}},
		"room for nothing":   {Limits{Bytes: 1 << 10}, nil},
		"a full disk":        {Limits{Floor: 1 << 62, Enough: 1 << 62}, []string{"data/big/2026_11/C1", "data/indexdb/2026_11/I1", "data/small/2026_11/C2"}},
		"a disk with enough": {Limits{Floor: 1, Enough: 1 << 62}, all},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shelf(t)
			var said []string
			over, err := Over(dir, c.limits)
			require.NoError(t, err)
			require.NoError(t, Make(dir, c.limits, func(s string) { said = append(said, s) }))
			require.ElementsMatch(t, c.want, has(t, dir))
			require.Equal(t, over, len(said) > 0, said)
			again, err := Over(dir, c.limits)
			require.NoError(t, err)
			require.False(t, again, "room was made")
		})
	}
}

func TestWhatIsListedIsThereAtEachPoint(t *testing.T) {
	dir := shelf(t)
	require.NoError(t, Make(dir, Limits{Bytes: 360 << 10}, func(string) {}))
	text, err := os.ReadFile(filepath.Join(dir, "data/small/2026_10/parts.json"))
	require.NoError(t, err)
	require.JSONEq(t, `{"Small":["B2"],"Big":null}`, string(text))
	require.NoDirExists(t, filepath.Join(dir, "data/small/2026_09"))
	require.NoDirExists(t, filepath.Join(dir, "data/indexdb/2026_09"))

	// A cut has left half of a month that goes; the next start has it go.
	write(t, filepath.Join(dir, going, "indexdb-2026_08/I1/items.bin"), "x")
	require.NoError(t, Make(dir, Limits{}, func(string) {}))
	require.NoDirExists(t, filepath.Join(dir, going))
}

func TestAMonthThatWasCutOffWhileItWentGoesWithTheNext(t *testing.T) {
	dir := shelf(t)
	write(t, filepath.Join(dir, "data/small/2026_08/parts.json"), `{"Small":null,"Big":null}`)
	write(t, filepath.Join(dir, "data/indexdb/2026_08/I1/items.bin"), "x")
	// The index of a month that is about to begin.
	write(t, filepath.Join(dir, "data/indexdb/2026_12/I1/items.bin"), "x")
	require.NoError(t, Make(dir, Limits{Bytes: 470 << 10}, func(string) {}))
	require.NoDirExists(t, filepath.Join(dir, "data/indexdb/2026_08"))
	require.NoDirExists(t, filepath.Join(dir, "data/small/2026_08"))
	require.DirExists(t, filepath.Join(dir, "data/indexdb/2026_10"))
	require.DirExists(t, filepath.Join(dir, "data/indexdb/2026_12"))
}

func TestWhatIsNotListedDoesNotCount(t *testing.T) {
	dir := shelf(t)
	before, err := Bytes(dir)
	require.NoError(t, err)
	write(t, filepath.Join(dir, "data/big/2026_11/D1/values.bin"), strings.Repeat("x", 1<<20))
	write(t, filepath.Join(dir, "data/indexdb/2026_11/I2/items.bin"), strings.Repeat("x", 1<<20))
	after, err := Bytes(dir)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestAFolderOfDataThatIsNotThereYetNeedsNoRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, Make(dir, Limits{Bytes: 1, Floor: 1 << 62, Enough: 1 << 62}, func(string) {}))
	over, err := Over(dir, Limits{Bytes: 1})
	require.NoError(t, err)
	require.False(t, over)
	_, err = Over(filepath.Join(dir, "none"), Limits{})
	require.Error(t, err)
}

func TestAListThatLeadsElsewhereIsRefused(t *testing.T) {
	for _, text := range []string{`{"Small":["../../x"]}`, `{"Big":[".."]}`, `{"Big":[""]}`, `{"Big":["a/b"]}`, `{"Small":[1]}`, `[`, ``} {
		_, err := parseList([]byte(text))
		require.Error(t, err, text)
		dir := shelf(t)
		write(t, filepath.Join(dir, "data/small/2026_10/parts.json"), text)
		before := has(t, dir)
		require.Error(t, Make(dir, Limits{Bytes: 1}, func(string) {}), text)
		require.Equal(t, before, has(t, dir))
	}
	for _, text := range []string{`{}`, `{"MaxTimestamp":"x"}`, `{"MaxTimestamp":1e99}`, `[]`, ``} {
		_, err := parseHeader([]byte(text))
		require.Error(t, err, text)
	}
}

func FuzzLists(f *testing.F) {
	f.Add([]byte(`{"Small":["17F2"],"Big":[]}`))
	f.Add([]byte(`{"MaxTimestamp":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseList(text)
		if err == nil {
			for _, n := range append(l.Small, l.Big...) {
				require.Equal(t, filepath.Join("a", n), "a/"+n)
			}
		}
		_, _ = parseHeader(text) // it ends
	})
}
