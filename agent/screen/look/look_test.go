package look

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	choice "spore/agent/choice/call"
	"spore/agent/paths"
	"spore/agent/screen/page"
	"spore/agent/verbs"
	"spore/wire/nodeapi"
)

// put writes files below a root.
func put(t *testing.T, root paths.Root, files map[string]string) {
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(root.At(name)), 0o755))
		require.NoError(t, os.WriteFile(root.At(name), []byte(text), 0o644))
	}
}

// looker looks at a machine of a test, whose verbs answer with these events.
func looker(t *testing.T, answers map[string]string) (Looker, *[]verbs.Call) {
	root := paths.Root(t.TempDir())
	l := Looker{Root: root, Journal: []string{"/bin/sh", "-c", "echo the newest; echo older"}, Now: time.Now}
	calls := new([]verbs.Call)
	if answers == nil {
		return l, calls
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(root.At(paths.LookSocket)), 0o755))
	listener, err := net.Listen("unix", root.At(paths.LookSocket))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadBytes('\n')
			c, err := verbs.ParseCall(line)
			if err != nil {
				c.Verb = err.Error()
			}
			*calls = append(*calls, c)
			key := c.Verb
			if kind := c.Order.Arguments["kind"]; kind != "" {
				key += " " + kind
			}
			_, _ = conn.Write([]byte(answers[key]))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return l, calls
}

func TestAChoiceIsHandedOver(t *testing.T) {
	l, _ := looker(t, nil)
	m := &page.Model{}
	l.Page(t.Context(), page.ChoicePage, m)
	require.Nil(t, m.Choice)
	require.Contains(t, m.ChoiceProblem, "does not run yet")

	require.NoError(t, os.MkdirAll(filepath.Dir(l.Root.At(paths.ChoiceSocket)), 0o755))
	listener, err := net.Listen("unix", l.Root.At(paths.ChoiceSocket))
	require.NoError(t, err)
	defer listener.Close()
	got := make(chan string, 1)
	answers := func(text string) {
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			_, _ = conn.Write([]byte(text))
			_ = conn.Close()
			got <- line
		}()
	}
	answers(`{"view":{"nodes":[{"name":"edge-01"}]}}` + "\n")
	l.Page(t.Context(), page.ChoicePage, m)
	require.JSONEq(t, `{"do":"look"}`, <-got)
	require.Equal(t, "edge-01", m.Choice.Nodes[0].Name)
	require.Empty(t, m.ChoiceProblem)

	answers(`{"error":"the medium is write-protected"}` + "\n")
	a := l.Choose(t.Context(), choice.Call{Do: choice.Choose, Node: "edge-01", Confirm: "edge-01"})
	require.JSONEq(t, `{"do":"choose","node":"edge-01","confirm":"edge-01"}`, <-got)
	require.Equal(t, "the medium is write-protected", a.Error)

	for _, text := range []string{"", "{", `{"do":1`} {
		answers(text)
		require.Contains(t, l.Choose(t.Context(), choice.Call{Do: choice.Choose}).Error, "it is not known what became of it")
		<-got
	}
	answers("{}")
	l.Page(t.Context(), page.ChoicePage, m)
	<-got
	require.Contains(t, m.ChoiceProblem, "lists no nodes")
}

func TestTheStatusIsRead(t *testing.T) {
	l, _ := looker(t, nil)
	m := &page.Model{Status: &page.Status{}}
	l.Status(m)
	require.Nil(t, m.Status)
	require.Empty(t, m.StatusProblem, "the agent has not said anything yet")

	put(t, l.Root, map[string]string{paths.Status: `{"spore":1,"node":"a","roles":["dns-server"],"failed":[],"new":1}`})
	l.Status(m)
	require.Equal(t, "a", m.Status.Node)

	put(t, l.Root, map[string]string{paths.Status: `{"spore":1,"node":`})
	l.Status(m)
	require.Nil(t, m.Status)
	require.Contains(t, m.StatusProblem, "cannot be read")
}

func TestWhatIsAskedIsWhatVerbsTake(t *testing.T) {
	l, calls := looker(t, map[string]string{
		"net": `{"say":"x"}` + "\n" + `{"result":{"routes":[{"to":"0.0.0.0/0","via":"10.0.0.1"},
			{"to":"0.0.0.0/0","via":"10.0.0.1"},
			{"to":"10.0.0.0/24"}],"dns":["10.0.0.3"],"search":["plant.example"]}}` + "\n" + `{"done":"x"}` + "\n",
		"probe ping": `{"result":{"number":1,"to":"10.0.0.1","milliseconds":0.5}}{"done":"x"}`,
		"probe dns":  `{"result":{"number":1,"to":"10.0.0.3:53","problem":"no answer"}}{"done":"x"}`,
		"disks":      `{"result":{"name":"sda"}}{"result":{"name":"sdb"}}{"done":"x"}`,
		"bundle":     `{"result":{"serial":3}}{"done":"x"}`,
	})
	m := &page.Model{}
	for _, p := range []page.Name{page.NetworkPage, page.DisksPage, page.SecretsPage} {
		l.Page(t.Context(), p, m)
	}
	require.Empty(t, m.NetworkProblem+m.DisksProblem+m.SecretsProblem)
	require.Equal(t, []page.Answer{
		{Of: "gateway", To: "10.0.0.1", Text: "0.5 ms"}, {Of: "DNS", To: "10.0.0.3:53", Text: "0.0 ms", Problem: "no answer"},
	}, m.Answers)
	require.Len(t, m.Disks, 2)
	require.EqualValues(t, 3, m.Secrets.Serial)
	require.Len(t, *calls, 5)
	for _, c := range *calls {
		verb, ok := nodeapi.FindVerb(c.Verb)
		require.True(t, ok, c.Verb)
		require.Equal(t, nodeapi.Looks, verb.Kind, "the screen changes nothing")
		require.NoError(t, verb.Check(c.Order))
		require.True(t, nodeapi.Caller{Roles: c.Roles}.Is(verb.Who...))
	}
}

func TestWhatDoesNotAnswerIsSaid(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers map[string]string
		want    string
	}{
		{"nobody listens", nil, "what looks at the machine does not run yet"},
		{"it refuses", map[string]string{"disks": `{"error":"this machine does not match any node"}`},
			"does not match any node"},
		{"it is cut off", map[string]string{"disks": `{"result":{"name":"sda"}}` + "\n" + `{"resu`}, "cut off"},
		{"it has another form", map[string]string{"disks": `{"result":[1]}`}, "malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _ := looker(t, tc.answers)
			m := &page.Model{}
			l.Page(t.Context(), page.DisksPage, m)
			require.Nil(t, m.Disks)
			require.Contains(t, m.DisksProblem, tc.want)
		})
	}
}

func TestTheJournalIsBounded(t *testing.T) {
	l, _ := looker(t, nil)
	m := &page.Model{}
	l.Page(t.Context(), page.JournalPage, m)
	require.Equal(t, []string{"the newest", "older"}, m.Journal)

	l.Journal = []string{"/bin/sh", "-c", "yes x"}
	l.Page(t.Context(), page.JournalPage, m)
	require.Len(t, m.Journal, maxLines)
	require.Empty(t, m.JournalProblem)

	l.Journal = []string{"/bin/sh", "-c", "exit 1"}
	l.Page(t.Context(), page.JournalPage, m)
	require.Empty(t, m.Journal)
	require.Contains(t, m.JournalProblem, "exit status 1")
}

func TestTheJournalHasNoAuditRecords(t *testing.T) {
	l, _ := looker(t, nil)
	l.Journal = []string{"/bin/sh", "-c", `for a in "$@"; do echo "$a"; done`, "journalctl"}
	m := &page.Model{}
	l.Page(t.Context(), page.JournalPage, m)
	require.Contains(t, m.Journal, "_TRANSPORT=kernel")
	require.NotContains(t, strings.Join(m.Journal, " "), "audit")
}

func TestHardwareIsRead(t *testing.T) {
	l, _ := looker(t, nil)
	put(t, l.Root, map[string]string{
		"/sys/class/dmi/id/sys_vendor": "ACME\n", "/sys/class/dmi/id/product_serial": "SN-1\n",
		"/proc/cpuinfo": "processor\t: 0\nmodel name\t: CPU 9\nprocessor\t: 1\nmodel name\t: CPU 9\n",
		"/proc/meminfo": "MemTotal:  2048000 kB\nMemAvailable:   1024000 kB\n", "/proc/uptime": "93784.12 1.0\n",
		"/proc/loadavg":                       "0.10 0.20 0.30 1/100 4711\n",
		"/sys/class/hwmon/hwmon0/temp1_input": "41500\n", "/sys/class/hwmon/hwmon0/name": "coretemp\n",
	})
	m := &page.Model{}
	l.Page(t.Context(), page.HardwarePage, m)
	require.Equal(t, [][2]string{
		{"maker", "ACME"}, {"serial", "SN-1"}, {"processor", "2 x CPU 9"}, {"memory", "2000 MiB, 1000 MiB free for programs"},
		{"up for", "1 days 2 h 3 min"}, {"load", "0.10 0.20 0.30"}, {"temperature", "41 C  coretemp"},
	}, m.Hardware.Rows)
	l.Root = paths.Root(t.TempDir())
	require.Empty(t, l.hardware().Rows)
}

func FuzzStatus(f *testing.F) {
	f.Add(`{"node":"a","roles":null,"services":{"x":"\u001b"}}`)
	f.Add(`{"seen":{"macs":["x"]},"bundle":{},"state":{"encryption":{}},"clock":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var s page.Status
		if json.Unmarshal([]byte(text), &s) != nil {
			return
		}
		for _, e := range page.Pages() {
			g, _ := (&page.Model{Status: &s}).Render(page.View{Page: e.Name}, 80, 24)
			require.Equal(t, 24, strings.Count(g.String(), "\n"))
		}
	})
}

// A program may write a line of any length.
func TestALongLineHidesNoOther(t *testing.T) {
	l, _ := looker(t, nil)
	l.Journal = []string{"/bin/sh", "-c", "printf '%070000d\\n' 1; echo older"}
	var m page.Model
	l.Page(t.Context(), page.JournalPage, &m)
	require.Empty(t, m.JournalProblem)
	require.Len(t, m.Journal, 2)
	require.Len(t, m.Journal[0], maxLine)
	require.Equal(t, "older", m.Journal[1])
}

func TestTheStatusLineIsReadAgainWhenItIsAnother(t *testing.T) {
	root := paths.Root(t.TempDir())
	now := time.Date(2026, 3, 1, 12, 30, 1, 0, time.UTC)
	l := Looker{Root: root, Now: func() time.Time { return now }, Last: new(Last)}
	write := func(text string) { // As the agent does: a new file takes the place of the old one.
		require.NoError(t, os.MkdirAll(filepath.Dir(root.At(paths.Status)), 0o755))
		require.NoError(t, os.WriteFile(root.At("/new"), []byte(text), 0o644))
		require.NoError(t, os.Rename(root.At("/new"), root.At(paths.Status)))
	}
	var m page.Model
	require.True(t, l.Status(&m))
	require.Nil(t, m.Status)
	write(`{"node":"edge-01"}`)
	require.True(t, l.Status(&m))
	require.Equal(t, "edge-01", m.Status.Node)
	require.False(t, l.Status(&m))
	require.Equal(t, "edge-01", m.Status.Node)
	other := page.Model{Now: now}
	require.True(t, l.Status(&other), "it is not on this page yet")
	require.Equal(t, "edge-01", other.Status.Node)

	now = now.Add(58 * time.Second)
	require.False(t, l.Status(&m))
	require.Equal(t, now, m.Now)
	now = now.Add(time.Second)
	require.True(t, l.Status(&m), "the clock shows another minute")

	write(`{"node":"edge-02"}`)
	require.True(t, l.Status(&m))
	require.Equal(t, "edge-02", m.Status.Node)
	write(`{"node":`)
	require.True(t, l.Status(&m))
	require.Contains(t, m.StatusProblem, "cannot be read")
	require.False(t, l.Status(&m))
	require.Contains(t, m.StatusProblem, "cannot be read")
	require.NoError(t, os.Remove(root.At(paths.Status)))
	require.True(t, l.Status(&m))
	require.Empty(t, m.StatusProblem)
	require.Nil(t, m.Status)
}
