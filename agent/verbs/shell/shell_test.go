package shell

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/shell/kept"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

var (
	id    = strings.Repeat("0a", 16)
	begun = time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	about = nodeapi.Order{Arguments: map[string]string{"session": id}}
)

func TestASessionIsListedAndAcknowledgedOnce(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	m.Now = func() time.Time { return begun.Add(time.Hour) }
	s := Shell{}
	a := verbstest.Call(t, m, "shell-sessions", nodeapi.Order{}, s.List)
	require.NoError(t, a.Err)
	require.Equal(t, "0 sessions", a.Done)
	require.ErrorContains(t, verbstest.Call(t, m, "shell-acknowledge", about, s.Acknowledge).Err, "no such session")
	require.ErrorContains(t, verbstest.Call(t, m, "shell-replay", about, s.Replay).Err, "no such session")
	for _, bad := range []string{"", "x", "../x", strings.ToUpper(id)} {
		o := nodeapi.Order{Arguments: map[string]string{"session": bad}}
		require.Error(t, verbstest.Call(t, m, "shell-acknowledge", o, s.Acknowledge).Err, bad)
	}

	one := shell.Session{
		ID: id, User: "bert", Reason: "a test", Begun: begun, Ended: begun.Add(time.Minute), Result: "exit status 0",
	}
	require.NoError(t, kept.In(m.Root).Begin(one, begun))
	dry := about
	dry.DryRun = true
	a = verbstest.Call(t, m, "shell-acknowledge", dry, s.Acknowledge)
	require.NoError(t, a.Err)
	would := "would acknowledge: a shell was open on 2026-11-26T08:00:00Z by bert (a test), not acknowledged: " + id
	require.Equal(t, would, a.Done)
	a = verbstest.Call(t, m, "shell-acknowledge", about, s.Acknowledge)
	require.NoError(t, a.Err)
	require.Equal(t, "a shell was open on 2026-11-26T08:00:00Z by bert (a test), acknowledged by anna", a.Done)
	again := verbstest.Call(t, m, "shell-acknowledge", about, s.Acknowledge)
	require.ErrorContains(t, again.Err, "was acknowledged by anna")

	a = verbstest.Call(t, m, "shell-sessions", nodeapi.Order{}, s.List)
	require.NoError(t, a.Err)
	var all []shell.Session
	require.NoError(t, json.Unmarshal(a.Results[0], &all))
	require.Equal(t, "anna", all[0].AcknowledgedBy)
}

// line is a record as journalctl prints it.
func line(number int, stream, data string) string {
	return fmt.Sprintf(`{"SPORE_SHELL_NUMBER":"%d","SPORE_SHELL_AT":"%d","SPORE_SHELL_STREAM":%q,"SPORE_SHELL_DATA":%q}`+"\n",
		number, number*100, stream, base64.StdEncoding.EncodeToString([]byte(data)))
}

// outOfPlace is what is said of records that no session writes.
const outOfPlace = " are out of place: somebody else may have written into it"

func TestAReplayIsWhatTheJournalHas(t *testing.T) {
	big := strings.Repeat("x", shell.MaxFrame)
	whole := line(0, "begin", "") + line(1, "input", "id\n") + line(2, "output", "uid=0\x1b[1m\n") + line(3, "end", "")
	many := line(0, "begin", "")
	for n := range 40 {
		many += line(n+1, "output", big)
	}
	for name, c := range map[string]struct {
		journal, done, err string
		records            int
	}{
		"a session": {whole, "2 records", "", 2},
		"parts":     {many + line(41, "end", ""), "40 records", "", 40},
		"one that goes on": {
			strings.TrimSuffix(whole, line(3, "end", "")), "2 records; it does not have the end of the session", "", 2,
		},
		"one with a hole": {
			line(0, "begin", "") + line(4, "output", "x") + line(5, "end", ""),
			"1 records; the journal does not have 3 others", "", 1,
		},
		"nothing":                {"", "0 records; it does not have the end of the session", "", 0},
		"no JSON":                {"x\n", "", "a record is malformed", 0},
		"a line that is cut off": {whole + "{", "", "a record is malformed", 0},
		// Records that root has written hide none of the session.
		"no number":      {`{"SPORE_SHELL_AT":"1"}` + "\n" + whole, "2 records; 1 records" + outOfPlace, "", 2},
		"a number below": {line(-1, "output", "x") + whole, "2 records; 1 records" + outOfPlace, "", 2},
		"a number twice": {
			line(0, "begin", "") + line(0, "output", "x") + strings.TrimPrefix(whole, line(0, "begin", "")),
			"3 records; 1 records" + outOfPlace, "", 3,
		},
		"a number ahead": {
			line(9, "output", "x") + whole, "3 records; the journal does not have 9 others; 4 records" + outOfPlace, "", 3,
		},
		"a field as numbers": {
			`{"SPORE_SHELL_NUMBER":"0","SPORE_SHELL_AT":"0","SPORE_SHELL_DATA":[1,2]}` + "\n" + whole,
			"2 records; 1 records" + outOfPlace, "", 2,
		},
		"entries of 100 and 500 KiB": {
			line(0, "output", strings.Repeat("x", 75<<10)) + line(0, "output", strings.Repeat("x", 375<<10)) + whole,
			"2 records; 2 records" + outOfPlace, "", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := nodetest.New(t, 1)
			nodetest.Is(t, m, "node-00000")
			require.NoError(t, kept.In(m.Root).Begin(shell.Session{ID: id}, begun))
			file := filepath.Join(t.TempDir(), "journal")
			require.NoError(t, os.WriteFile(file, []byte(c.journal), 0o600))
			p := &verbstest.Programs{Answer: map[string]string{"journalctl": "cat " + file}}
			a := verbstest.Call(t, m, "shell-replay", about, Shell{p.Run}.Replay)
			require.Contains(t, p.Called[0], "SPORE_SHELL_SESSION="+id+" _UID=0")
			if c.err != "" {
				require.ErrorContains(t, a.Err, c.err)
				return
			}
			require.NoError(t, a.Err)
			require.Equal(t, c.done, a.Done)
			var all []shell.Record
			for _, part := range a.Results {
				var some []shell.Record
				require.NoError(t, json.Unmarshal(part, &some))
				all = append(all, some...)
			}
			require.Len(t, all, c.records)
			if name == "a session" {
				require.Equal(t, shell.Record{At: 200, Data: []byte("uid=0\x1b[1m\n")}, all[1])
				require.True(t, all[0].Input)
			}
		})
	}
}

func TestAJournalThatCannotBeReadIsSaid(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	require.NoError(t, kept.In(m.Root).Begin(shell.Session{ID: id}, begun))
	p := &verbstest.Programs{Answer: map[string]string{"journalctl": "exit 1"}}
	a := verbstest.Call(t, m, "shell-replay", about, Shell{p.Run}.Replay)
	require.ErrorContains(t, a.Err, "read the journal: exit status 1")
}

func FuzzReplay(f *testing.F) {
	f.Add(line(0, "begin", "") + line(1, "output", "x") + line(2, "end", ""))
	f.Add(line(7, "input", "x") + "{}\n")
	f.Add(`{"SPORE_SHELL_NUMBER":"-1","SPORE_SHELL_AT":"x"}` + "\n")
	f.Fuzz(func(t *testing.T, journal string) {
		var out strings.Builder
		p := replay{r: verbs.For(nil, nil, nil, nodeapi.Order{}, &out)}
		if err := p.read(strings.NewReader(journal)); err == nil && p.lost < 0 {
			t.Fatal("less than nothing was lost")
		}
		_, err := nodeapi.ReadEvents(strings.NewReader(out.String()+"{\"done\":\"x\"}\n"), func(e nodeapi.Event) error {
			var some []shell.Record
			return json.Unmarshal(e.Result, &some)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
