//go:build e2e

package services

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs"
	verblogs "spore/agent/verbs/logs"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/logs"
	"spore/test/kubecluster"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// askedStore is VictoriaLogs of payloads/ with the arguments of its unit, filled as the taker of a store fills it.
type askedStore struct {
	t       *testing.T
	cmd     *exec.Cmd
	data    string
	log     bytes.Buffer
	at      verblogs.Store
	machine *node.Machine
	cluster *facts.Cluster
}

func newAskedStore(t *testing.T) *askedStore {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kubecluster.Programs(t.Context(), "../..", dir, logs.Program))
	s := &askedStore{t: t, machine: node.New("test", paths.Root(t.TempDir())), cluster: &facts.Cluster{
		Members: map[string][]string{logs.Role: {"observer-01"}}, Services: spec.Services{&logs.Settings{}},
	}}
	s.data = filepath.Join(dir, "state")
	s.at = verblogs.Store{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}
	secret := s.machine.Root.At(filepath.Join(paths.Secrets, logs.Program, logs.PasswordEntry))
	require.NoError(t, os.MkdirAll(filepath.Dir(secret), 0o700))
	require.NoError(t, os.WriteFile(secret, []byte("swordfish"), 0o600))
	arguments := argumentsOf(t, logs.Unit, strings.NewReplacer(
		"${VICTORIA_LOGS_DATA}", s.data, "127.0.0.1:"+strconv.Itoa(logs.Port), s.at.Address,
		"%d/secret_"+logs.PasswordEntry, secret, "/usr/bin/victoria-logs", filepath.Join(dir, "usr/bin/victoria-logs"),
	))
	arguments = arguments[slices.Index(arguments, "--")+1:] // What is before it has a test of its own.
	s.cmd = exec.Command(arguments[0], arguments[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // an error means that it has ended
		_ = s.cmd.Wait()         // always "killed"
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	require.Eventually(t, func() bool { _, _, err := s.query(nil); return err == nil }, 30*time.Second, 50*time.Millisecond, s.log.String())
	return s
}

// post sends something to the store with its password.
func (s *askedStore) post(path string, body io.Reader) {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.at.Address+path, body)
	require.NoError(s.t, err)
	q.SetBasicAuth(logs.User, "swordfish")
	answer, err := http.DefaultClient.Do(q)
	require.NoError(s.t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, answer.Body.Close())
	require.Less(s.t, answer.StatusCode, 300, string(text))
}

// askedStreams are the fields by which the taker of a store has VictoriaLogs sort entries.
const askedStreams = "/insert/jsonline?_stream_fields=node,_SPORE_SOURCE,_SYSTEMD_UNIT,KUBERNETES_NAMESPACE,KUBERNETES_POD,KUBERNETES_CONTAINER"

// takes has entries in the store that questions find.
func (s *askedStore) takes(entries ...map[string]string) {
	s.t.Helper()
	var lines bytes.Buffer
	for _, e := range entries {
		data, err := json.Marshal(e)
		require.NoError(s.t, err)
		lines.Write(append(data, '\n'))
	}
	s.post(askedStreams, &lines)
	s.post("/internal/force_flush", nil)
}

// query asks as the verb of the node's API does, for an operator.
func (s *askedStore) query(arguments map[string]string) ([]nodeapi.Entry, machine.LogsEnd, error) {
	s.t.Helper()
	return s.queryBy(nodeapi.Caller{Name: "otto", Roles: []nodeapi.Role{nodeapi.Operator}}, arguments)
}

func (s *askedStore) queryBy(by nodeapi.Caller, arguments map[string]string) (entries []nodeapi.Entry, end machine.LogsEnd, err error) {
	s.t.Helper()
	verb, _ := nodeapi.FindVerb(nodeapi.LogsQuery)
	order := nodeapi.Order{Arguments: arguments}
	require.NoError(s.t, verb.Check(order))
	var out bytes.Buffer
	r := verbs.For(s.machine, s.cluster, &facts.Node{Name: "observer-01"}, order, &out)
	r.By = by
	_, err = s.at.Query(s.t.Context(), r)
	_, lost := nodeapi.ReadEvents(io.MultiReader(&out, strings.NewReader(`{"done":"-"}`+"\n")), func(e nodeapi.Event) error {
		if e.Say != "" {
			return nil
		}
		if e.Result[0] != '[' {
			return json.Unmarshal(e.Result, &end)
		}
		var part []json.RawMessage
		if err := json.Unmarshal(e.Result, &part); err != nil {
			return err
		}
		for _, one := range part {
			entry, err := nodeapi.ParseEntry(one)
			if err != nil {
				return err
			}
			entries = append(entries, entry)
		}
		return nil
	})
	require.NoError(s.t, lost)
	return entries, end, err
}

func messagesOf(entries []nodeapi.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Message)
	}
	return out
}

// What is asked in the words of Spore is answered by VictoriaLogs itself.
func TestAStoreOfLogsIsAsked(t *testing.T) {
	s := newAskedStore(t)
	now := time.Now().UTC().Truncate(time.Second)
	n := 0
	entry := func(ago time.Duration, node, source, message string, more ...string) map[string]string {
		n++
		e := map[string]string{
			"_time": now.Add(-ago).Format(time.RFC3339Nano), "_msg": message, "node": node, "_SPORE_SOURCE": source, "cluster": "plant",
			"__CURSOR": fmt.Sprintf("s=a;i=%x", n), "PRIORITY": "6", "role": "mqtt-broker", "_BOOT_ID": "b2", "_TRANSPORT": "journal",
		}
		for i := 0; i < len(more); i += 2 {
			e[more[i]] = more[i+1]
		}
		return e
	}
	const hostile = `he said "xyzzy") | delete` + " \\ ` ' {node=\"x\"} #"
	entries := []map[string]string{
		entry(72*time.Hour, "a", "journal", "of an older start", "_BOOT_ID", "b1"),
		entry(50*time.Minute, "a", "journal", "xyzzy is a word", "_SYSTEMD_UNIT", "kafka.service", "PRIORITY", "3"),
		entry(40*time.Minute, "b", "journal", "plughxyzzy is a part of one", "_SYSTEMD_UNIT", "getty@tty1.service", "PRIORITY", "4"),
		entry(30*time.Minute, "a", "journal", hostile, "_SYSTEMD_UNIT", "evil.service"),
		entry(20*time.Minute, "b", "journal", "Started kafka", "_SYSTEMD_UNIT", "init.scope", "UNIT", "kafka.service"),
		entry(10*time.Minute, "a", "journal", "audit of the kernel", "_TRANSPORT", "audit"),
		entry(5*time.Minute, "a", "pod", "press: 12 kN", "KUBERNETES_NAMESPACE", "plant", "KUBERNETES_POD", "press-0", "KUBERNETES_CONTAINER", "main", "PRIORITY", ""),
		entry(4*time.Minute, "a", "pod", "sidecar", "KUBERNETES_NAMESPACE", "plant", "KUBERNETES_POD", "press-0", "KUBERNETES_CONTAINER", "side"),
		entry(3*time.Minute, "a", "audit", "get secrets"),
		entry(2*time.Minute, "b", "journal", "two\nlines\x01"),
		entry(-3*365*24*time.Hour, "c", "journal", "of a clock that is ahead"),
		entry(50*365*24*time.Hour, "d", "journal", "of a clock of 1976"),
	}
	s.takes(append(entries, entries[1])...)

	journal := []string{
		"of a clock of 1976", "of an older start", "xyzzy is a word", "plughxyzzy is a part of one", hostile, "Started kafka", "audit of the kernel",
		"two\nlines\x01", "of a clock that is ahead",
	}
	for name, c := range map[string]struct {
		arguments map[string]string
		want      []string
	}{
		"the journal is meant":           {nil, journal},
		"all sources":                    {map[string]string{"sources": "journal,pod,audit", "since": now.Add(-6 * time.Minute).Format(time.RFC3339), "until": now.Format(time.RFC3339)}, []string{"press: 12 kN", "sidecar", "get secrets", "two\nlines\x01"}},
		"the audit log":                  {map[string]string{"sources": "audit"}, []string{"get secrets"}},
		"a node":                         {map[string]string{"nodes": "b"}, []string{"plughxyzzy is a part of one", "Started kafka", "two\nlines\x01"}},
		"a node that is none":            {map[string]string{"nodes": "e"}, nil},
		"a unit, and what is said of it": {map[string]string{"units": "kafka.service"}, []string{"xyzzy is a word", "Started kafka"}},
		"instances":                      {map[string]string{"units": "getty@.service"}, []string{"plughxyzzy is a part of one"}},
		"units":                          {map[string]string{"units": "getty@tty1.service,kafka.service", "nodes": "b"}, []string{"plughxyzzy is a part of one", "Started kafka"}},
		"what is urgent":                 {map[string]string{"priority": "4"}, []string{"xyzzy is a word", "plughxyzzy is a part of one"}},
		"a pod's has no priority":        {map[string]string{"pod": "plant/press-0", "priority": "6"}, []string{"press: 12 kN", "sidecar"}},
		"a container":                    {map[string]string{"pod": "plant/press-0/side"}, []string{"sidecar"}},
		"another namespace":              {map[string]string{"pod": "plan/press-0"}, nil},
		"a text":                         {map[string]string{"grep": "xyzzy"}, []string{"xyzzy is a word", "plughxyzzy is a part of one", hostile}},
		"a word":                         {map[string]string{"grep": `\bxyzzy\b`}, []string{"xyzzy is a word", hostile}},
		"a text with quotes":             {map[string]string{"grep": `\Q"xyzzy") | delete \ ` + "` ' {node=\"x\"} #" + `\E`}, []string{hostile}},
		"an expression":                  {map[string]string{"grep": `^(two|Started)`}, []string{"Started kafka", "two\nlines\x01"}},
		"an expression that ends":        {map[string]string{"grep": `(?m)two$`}, []string{"two\nlines\x01"}},
		"an expression for the end":      {map[string]string{"grep": `(word|kafka)$`}, []string{"xyzzy is a word", "Started kafka"}},
		"an expression for all":          {map[string]string{"grep": `^Start.* kafka$`}, []string{"Started kafka"}},
		"a point is no line's end":       {map[string]string{"grep": `two.lines`}, nil},
		"unless it is":                   {map[string]string{"grep": `(?s)two.lines`}, []string{"two\nlines\x01"}},
		"whatever case":                  {map[string]string{"grep": `(?i)XYZZY IS`}, []string{"xyzzy is a word", "plughxyzzy is a part of one"}},
		"the last":                       {map[string]string{"lines": "2"}, []string{"two\nlines\x01", "of a clock that is ahead"}},
		"a time":                         {map[string]string{"since": now.Add(-30 * time.Minute).Format(time.RFC3339), "until": now.Add(-20 * time.Minute).Format(time.RFC3339)}, []string{hostile, "Started kafka"}},
		"the start before":               {map[string]string{"boot": "-1"}, []string{"of an older start"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, end, err := s.query(c.arguments)
			require.NoError(t, err)
			require.Equal(t, c.want, messagesOf(got))
			require.Equal(t, name == "the last", end.Cut)
		})
	}
	t.Run("a reader does not see audit records", func(t *testing.T) {
		got, _, err := s.queryBy(nodeapi.Caller{Name: "rita", Roles: []nodeapi.Role{nodeapi.Reader}}, nil)
		require.NoError(t, err)
		require.Equal(t, slices.DeleteFunc(slices.Clone(journal), func(m string) bool { return m == "audit of the kernel" }), messagesOf(got))
	})
	t.Run("it says how far it is", func(t *testing.T) {
		got, end, err := s.query(map[string]string{"lines": "0"})
		require.NoError(t, err)
		require.Empty(t, got)
		require.Equal(t, now.Add(-2*time.Minute), end.Newest["b"].UTC())
		require.Equal(t, now.Add(-10*time.Minute), end.Newest["a"].UTC(), "of its journal")
		require.NotContains(t, end.Newest, "d")
	})
}
