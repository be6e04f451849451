package days

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/logs"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func TestWhichDayGoes(t *testing.T) {
	const mib = 1 << 20
	kept := Limits{Days: 30, Bytes: 100 * mib, Floor: 10 * mib, Enough: 20 * mib}
	many := State{Days: []string{"20261124", "20261125", "20261126"}, Bytes: 90 * mib, Free: 50 * mib}
	with := func(change func(*State)) State {
		s := many
		s.Days = slices.Clone(s.Days)
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		state     State
		now       time.Time
		want, why string
	}{
		"nothing": {many, noon, "", ""},
		"no days": {State{}, noon, "", ""},
		"one that is too old": {with(func(s *State) { s.Days = append([]string{"20261024"}, s.Days...) }), noon,
			"20261024", "entries are kept for 30 days"},
		"one that is too old, after the store was off for long": {with(func(s *State) { s.Days[0] = "20261020" }), noon, "", ""},
		"the last that is kept":                                 {with(func(s *State) { s.Days[0] = "20261027" }), noon, "", ""},
		"too many bytes":                                        {with(func(s *State) { s.Bytes = 101 * mib }), noon, "20261124", "the data fill 101 MiB, and may fill 100 MiB"},
		"exactly the bytes":                                     {with(func(s *State) { s.Bytes = 100 * mib }), noon, "", ""},
		"a full disk":                                           {with(func(s *State) { s.Free = 9 * mib }), noon, "20261124", "9 MiB of the disk are free"},
		"the day before today":                                  {with(func(s *State) { s.Days, s.Free = s.Days[1:], 0 }), noon, "20261125", "0 MiB of the disk are free"},
		"today stays":                                           {with(func(s *State) { s.Days, s.Free, s.Bytes = s.Days[2:], 0, 200*mib }), noon, "", ""},
		"today stays, not tomorrow":                             {State{Days: []string{"20261126", "20261127"}, Free: 0}, noon, "20261127", "0 MiB of the disk are free"},
		"a clock that is years late":                            {many, noon.AddDate(20, 0, 0), "", ""},
		"a late clock and days of its own": {with(func(s *State) { s.Days = append(s.Days, "20461125", "20461126") }), noon.AddDate(20, 0, 0),
			"", ""},
		"a late clock that nobody has set for three days": {with(func(s *State) { s.Days = append(s.Days, "20461124", "20461125", "20461126") }), noon.AddDate(20, 0, 0),
			"20261124", "entries are kept for 30 days"},
		"a clock that is years early":                  {many, noon.AddDate(-20, 0, 0), "", ""},
		"a clock that is years early, and a full disk": {with(func(s *State) { s.Free = 0 }), noon.AddDate(-20, 0, 0), "20261124", "0 MiB of the disk are free"},
		"a day of the future does not make others old": {with(func(s *State) { s.Days = append(s.Days, "20301126") }), noon, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			day, why := Victim(tc.state, kept, tc.now)
			require.Equal(t, tc.want, day)
			require.Equal(t, tc.why, why)
		})
	}
	day, _ := Victim(with(func(s *State) { s.Bytes = 1 << 40 }), Limits{Days: 30}, noon)
	require.Empty(t, day, "without a bound")
	day, _ = Victim(many, Limits{Days: 1}, noon)
	require.Equal(t, "20261124", day, "where two days are all that is kept")
}

// fake is a store whose days have files, and which says what they fill.
type fake struct {
	dir  string
	days []string
	// each is what a day fills; the store says for a while that it has as many as said.
	each, said uint64
	detached   []string
	broken     string
}

func newFake(t *testing.T, names ...string) (*fake, Store) {
	f := &fake{dir: t.TempDir(), days: names, said: uint64(len(names))}
	for _, name := range names {
		at := filepath.Join(f.dir, partitions, name, "datadb")
		require.NoError(t, os.MkdirAll(at, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(at, "values.bin"), make([]byte, 4<<20), 0o600))
		var err error
		f.each, err = bytesOf(filepath.Dir(at))
		require.NoError(t, err)
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	password := filepath.Join(f.dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("swordfish\n"), 0o600))
	free := func(string) (uint64, error) { return 1 << 40, nil }
	return f, Store{Dir: f.dir, Address: strings.TrimPrefix(server.URL, "http://"), PasswordFile: password, Free: free}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != logs.User || password != "swordfish" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if f.broken == r.URL.Path {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "it is broken")
		return
	}
	switch r.URL.Path {
	case "/internal/partition/list":
		_ = json.NewEncoder(w).Encode(f.days)
	case "/internal/partition/detach":
		f.detached = append(f.detached, r.FormValue("name"))
		f.days = slices.DeleteFunc(f.days, func(d string) bool { return d == r.FormValue("name") })
	case "/metrics":
		fmt.Fprintf(w, "vl_partitions %d\nvl_data_size_bytes{type=\"indexdb\"} 0\nvl_data_size_bytes{type=\"storage\"} %d\n"+
			"vl_storage_is_read_only{path=\"x\"} 0\n", len(f.days), f.each*f.said)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *fake) onDisk(t *testing.T) []string {
	entries, err := os.ReadDir(filepath.Join(f.dir, partitions))
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestTheOldestGoUntilTheDataFitTheirBound(t *testing.T) {
	f, s := newFake(t, "20261123", "20261124", "20261125", "20261126")
	var said []string
	st, gone, err := s.Keep(t.Context(), Limits{Days: 30, Bytes: 10 << 20}, noon, func(s string) { said = append(said, s) })
	require.NoError(t, err)
	require.Equal(t, 2, gone)
	require.Equal(t, []string{"20261125", "20261126"}, f.onDisk(t))
	require.Equal(t, []string{"20261123", "20261124"}, f.detached)
	require.Equal(t, State{Days: []string{"20261125", "20261126"}, Bytes: 4 * f.each, Free: 1 << 40}, st)
	require.Equal(t, []string{
		"the data fill 16 MiB, and may fill 10 MiB: the day 20261123 goes", "the data fill 12 MiB, and may fill 10 MiB: the day 20261124 goes",
	}, said)
}

func TestAFullDiskGetsRoomAndNotMore(t *testing.T) {
	f, s := newFake(t, "20261123", "20261124", "20261125", "20261126")
	// The file system says the same however much goes; each day fills 4 MiB and its folders.
	s.Free = func(string) (uint64, error) { return 10 << 20, nil }
	_, gone, err := s.Keep(t.Context(), Limits{Days: 30, Floor: 12 << 20, Enough: 15 << 20}, noon, func(string) {})
	require.NoError(t, err)
	require.Equal(t, 2, gone)
	require.Equal(t, []string{"20261125", "20261126"}, f.onDisk(t))

	s.Free = func(string) (uint64, error) { return 12 << 20, nil }
	_, gone, err = s.Keep(t.Context(), Limits{Days: 30, Floor: 12 << 20, Enough: 15 << 20}, noon, func(string) {})
	require.NoError(t, err)
	require.Zero(t, gone, "there is as much as there has to be")

	s.Free = func(string) (uint64, error) { return 0, nil }
	_, _, err = s.Keep(t.Context(), Limits{Days: 30, Floor: 1 << 40, Enough: 1 << 40}, noon, func(string) {})
	require.NoError(t, err)
	require.Equal(t, []string{"20261126"}, f.onDisk(t), "today stays")
}

func TestWhatGoesIsTakenFromAStoreThatLetsGoOfIt(t *testing.T) {
	for path, want := range map[string]string{
		"/internal/partition/list":   `ask the store for /internal/partition/list: it answers 400 Bad Request: "it is broken"`,
		"/internal/partition/detach": `ask the store for /internal/partition/detach: it answers 400 Bad Request: "it is broken"`,
		"/metrics":                   `ask the store for /metrics: it answers 400 Bad Request: "it is broken"`,
	} {
		f, s := newFake(t, "20261125", "20261126")
		f.broken = path
		_, _, err := s.Keep(t.Context(), Limits{Days: 30, Bytes: 1}, noon, func(string) {})
		require.EqualError(t, err, want)
		require.Equal(t, []string{"20261125", "20261126"}, f.onDisk(t))
	}
	f, s := newFake(t, "20261125", "20261126")
	require.NoError(t, os.WriteFile(s.PasswordFile, []byte("other"), 0o600))
	_, _, err := s.Keep(t.Context(), Limits{Days: 30, Bytes: 1}, noon, func(string) {})
	require.ErrorContains(t, err, "401")
	require.Empty(t, f.detached)
	require.NoError(t, os.Remove(s.PasswordFile))
	_, _, err = s.Keep(t.Context(), Limits{}, noon, func(string) {})
	require.ErrorContains(t, err, "the password of the store: ")
}

func TestBeforeAStoreStartsAFullDiskGetsRoom(t *testing.T) {
	f, s := newFake(t, ".going-20261101", ".DS_Store", "20261020", "20261124", "20261125", "20261126")
	s.Address = "127.0.0.1:1"
	require.NoError(t, s.Prepare(Limits{Days: 30, Bytes: 1}, noon, func(string) {}))
	require.Equal(t, []string{".DS_Store", "20261124", "20261125", "20261126"}, f.onDisk(t), "days that are too old, and what was cut off")
	s.Free = func(string) (uint64, error) { return 0, nil }
	require.NoError(t, s.Prepare(Limits{Days: 30, Floor: 1 << 40, Enough: 1 << 40}, noon, func(string) {}))
	require.Equal(t, []string{".DS_Store", "20261126"}, f.onDisk(t))
	require.Empty(t, f.detached)

	s.Dir = t.TempDir()
	require.NoError(t, s.Prepare(Limits{Days: 30, Floor: 1 << 40}, noon, func(string) {}), "it has never run")
}

func TestWhatAStoreSaysThatIsMalformed(t *testing.T) {
	for _, text := range []string{"", "{}", `["2026"]`, `["../x"]`, `["20261350"]`, `["20261126/"]`, "[1]", `"20261126"`} {
		_, err := parseDays([]byte(text))
		require.Error(t, err, text)
	}
	got, err := parseDays([]byte(`["20261126","20261125"]`))
	require.NoError(t, err)
	require.Equal(t, []string{"20261125", "20261126"}, got)

	const storage, index = "vl_data_size_bytes{type=\"storage\"} 5\n", "vl_data_size_bytes{type=\"indexdb\"} 2\n"
	for _, text := range []string{"", storage, storage + index + index, "vl_data_size_bytes{type=\"storage\"} x\n" + index, storage + "vl_data_size_bytes{} -1\n", storage + index + "vl_storage_is_read_only{} yes"} {
		_, _, err := parseMetrics(text)
		require.Error(t, err, text)
	}
	bytes, readOnly, err := parseMetrics("# HELP x\n" + storage + index + "vl_storage_is_read_only{path=\"/a b\"} 1\n")
	require.NoError(t, err)
	require.Equal(t, uint64(7), bytes)
	require.True(t, readOnly)
}

func FuzzParse(f *testing.F) {
	f.Add(`["20261126"]`)
	f.Add("vl_data_size_bytes{type=\"storage\"} 5\nvl_data_size_bytes{type=\"indexdb\"} 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := parseDays([]byte(text)); err == nil {
			for _, day := range list {
				require.Equal(t, day, filepath.Base(day))
				require.Len(t, day, len(Form))
			}
		}
		_, _, _ = parseMetrics(text)
	})
}
