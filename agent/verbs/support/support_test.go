package support

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/wire/nodeapi"
)

// mark is in every place where a secret could come from.
const (
	mark = "MARK-b7f2c9d4e1a3"
	odd  = "<MARK&b7f2c9d4e1a3>"
)

func collected(t *testing.T, m *node.Machine, answer map[string]string) (map[string]string, string) {
	t.Helper()
	c, n, err := m.Self()
	require.NoError(t, err)
	p := &verbstest.Programs{Answer: answer}
	events, done, err := verbstest.Do(t, m, c, n, Support{
		Run: p.Run, Verbs: others, File: 2 << 20, All: 5 << 20, Time: 500 * time.Millisecond,
	}.Collect, nodeapi.Order{})
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range events {
		var part Part
		require.NoError(t, json.Unmarshal(e.Result, &part))
		files[part.File] += part.Text
	}
	return files, done
}

// others answer as other verbs do.
var others = map[string]verbs.Handler{
	"net": func(_ context.Context, r *verbs.Run) (string, error) {
		return "one", r.Result(map[string]any{"peer": odd, "index": 12345678901234567})
	},
	"top": func(_ context.Context, r *verbs.Run) (string, error) {
		return "", errors.Join(r.Result(1), r.Say("it waits"), errors.New("the kernel is silent, says "+mark))
	},
}

func machine(t *testing.T) *node.Machine {
	t.Helper()
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	write := func(path, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(path)), 0o755))
		require.NoError(t, os.WriteFile(m.Root.At(path), []byte(content), 0o600))
	}
	write(paths.Secrets+"/kafka/kafka-password-anna", mark)
	write(paths.Secrets+"/kafka/kafka-password-odd", odd)
	write("/proc/cmdline", "quiet key="+mark+"\n")
	write("/usr/lib/os-release", "ID=spore\n")
	write("/run/part/services/kafka.yaml", "users: [{name: anna, password: {secretRef: kafka-password-anna}}]\n")
	write("/etc/cluster-config/cluster.yaml", "name: plant # "+mark+"\n")
	// The folder holds links into the cluster part.
	require.NoError(t, os.Symlink(m.Root.At("/run/part/services"), m.Root.At("/etc/cluster-config/services")))
	return m
}

func TestWhatIsCollectedHasNoSecret(t *testing.T) {
	files, done := collected(t, machine(t), map[string]string{
		"--boot=0":    "echo 'a broker logs its password " + mark + "'; echo 'and token: abcdefgh'",
		"--boot=-1":   "echo no such boot >&2; exit 1",
		"--failed":    "echo '● kafka.service'; exit 3",
		"list-units":  "i=0; while [ $i -lt 40000 ]; do echo unit $i is loaded and active; i=$((i+1)); done",
		"list-jobs":   "exit 0",
		"list-timers": "exit 0",
		"df":          "exit 0",
		"networkctl":  "exit 0",
		"timesync":    "exit 0",
	})
	require.Equal(t, "a broker logs its password (secret kafka-password-anna)\nand token: (hidden)\n", files["journal/this-start.txt"])
	require.Equal(t, "no such boot\n", files["journal/last-start.txt"], "what a program says instead is what is shown")
	require.Contains(t, files["units/failed.txt"], "kafka.service", "its exit status tells that there are some")
	require.True(t, strings.HasSuffix(files["units/all.txt"], "unit 39999 is loaded and active\n"), "parts come in order")
	require.Contains(t, files["versions.txt"], "ID=spore")
	require.Contains(t, files["configuration/services/kafka.yaml"], "secretRef: kafka-password-anna")
	require.Contains(t, files, "units/jobs.txt", "what is empty is there")
	for name, text := range files {
		require.NotContains(t, text, mark, name)
		require.NotContains(t, text, odd, name)
	}
	require.Equal(t, "[\n  {\n    \"index\": 12345678901234567,\n    \"peer\": \"(secret kafka-password-odd)\"\n  }\n]\n", files["net.json"])
	require.Equal(t, "[\n  1\n]\n(the kernel is silent, says (secret kafka-password-anna))\n", files["top.json"])
	require.Regexp(t, `^\d+ files, \d+\.\d MiB$`, done)
}

func TestWhatIsCollectedIsBounded(t *testing.T) {
	long := "head -c 8000000 /dev/zero | tr '\\0' '<' | fold -w 100; echo; echo the newest line"
	endless := "while true; do echo a line that comes again and again; done"
	files, done := collected(t, machine(t), map[string]string{
		"--boot=0": long, "--boot=-1": endless, "systemctl": long, "df": long, "networkctl": long, "timedatectl": long,
	})
	all := 0
	for name, text := range files {
		require.LessOrEqual(t, len(text), 2<<20+1<<10, name)
		all += len(text)
	}
	require.LessOrEqual(t, all, 5<<20+1<<20)
	journal := files["journal/this-start.txt"]
	require.Greater(t, len(journal), 1<<20)
	lines := strings.Split(journal, "\n")
	require.Regexp(t, `^\(cut off: about \d+ bytes before this\)$`, lines[0])
	require.Equal(t, strings.Repeat("<", 100), lines[1], "it goes on where a line begins")
	require.True(t, strings.HasSuffix(journal, "\nthe newest line\n"))
	require.Contains(t, files["journal/last-start.txt"], "(journalctl was not done within 500ms; what it prints last can be missing:")
	require.Contains(t, done, "the rest was left out")
	require.NotContains(t, files, "units/all.txt", "journals come first")
}

func TestWhatCannotBeKeptOnOneLineIsCutBetweenWords(t *testing.T) {
	for in, want := range map[string]string{
		strings.Repeat("a", maxLine-20) + " " + mark + mark + "\nnext\n": strings.Repeat("a", maxLine-20) + " (line cut off)\nnext\n",
		strings.Repeat("a", 3*maxLine):                                   " (line cut off)\n",
		"one\r\n\ntwo":                                                   "one\n\ntwo\n",
		strings.Repeat("a", maxLine-1) + "\n":                            strings.Repeat("a", maxLine-1) + "\n",
	} {
		var got strings.Builder
		size := int64(0)
		for from := bufio.NewReaderSize(strings.NewReader(in), maxLine); ; {
			text, n, err := readLine(from)
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			size += n
			got.WriteString(text + "\n")
		}
		require.Equal(t, want, got.String())
		require.Equal(t, int64(len(in)), size)
	}
}

func TestALineThatMaskingLengthensIsSentInParts(t *testing.T) {
	var out strings.Builder
	p := &partWriter{c: &collector{r: verbs.For(nil, nil, nil, nodeapi.Order{}, &out)}, file: "f"}
	want := strings.Repeat("<é", 3*chunk)
	require.NoError(t, p.write(want))
	require.NoError(t, p.flush())
	got := ""
	_, err := nodeapi.ReadEvents(io.MultiReader(strings.NewReader(out.String()), strings.NewReader(`{"done":"-"}`)), func(e nodeapi.Event) error {
		var part Part
		require.NoError(t, json.Unmarshal(e.Result, &part))
		require.LessOrEqual(t, len(part.Text), chunk)
		got += part.Text
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, want+"\n", got)
}

func TestATailKeepsTheLastBytesBehindSomeBeforeThem(t *testing.T) {
	for _, size := range []int{0, 5, 10, 11, lead + 9, lead + 10, lead + 11, 2*lead + 25, 5 * lead} {
		written, err := newTail(10)
		require.NoError(t, err)
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i % 251)
		}
		for rest := data; len(rest) > 0; rest = rest[min(len(rest), 10007):] {
			n, err := written.Write(rest[:min(len(rest), 10007)])
			require.NoError(t, err)
			require.Equal(t, min(len(rest), 10007), n)
		}
		from, before, cut, err := written.read()
		require.NoError(t, err)
		got, err := io.ReadAll(from)
		require.NoError(t, err)
		require.Equal(t, data[max(0, size-lead-10):], got)
		require.EqualValues(t, max(0, size-10), cut)
		require.EqualValues(t, max(0, len(got)-10), before)
		written.close()
	}
}
