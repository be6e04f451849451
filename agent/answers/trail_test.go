package answers

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/netnstest"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/trail"
	"spore/agent/verbs"
	"spore/cluster/facts"
	"spore/pki"
	"spore/wire/nodeapi"
)

func TestTheNextNodeIsTheOneBehindIt(t *testing.T) {
	c := &facts.Cluster{Members: map[string][]string{"kafka-broker": {"b", "c"}, "control-plane": {"a", "c", "d"}}}
	require.Equal(t, []string{"c", "d", "a"}, after(c, "b"))
	require.Equal(t, []string{"a", "b", "c"}, after(c, "d"))
	require.Equal(t, []string{"a", "b", "c", "d"}, after(c, "without-roles"))
	require.Empty(t, after(&facts.Cluster{}, "a"))
}

// Two nodes, by the network: what is asked of one is read from the other, under the name of its certificate.
func TestAPushLeavesARecordOnTwoNodes(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		netnstest.Address(t, "lo", "10.77.0.11/32")
		netnstest.Address(t, "lo", "10.77.0.12/32")
		machines, c, tree := nodetest.BrokersWithKeys(t, "10.77.0.11", "10.77.0.12")
		for name, at := range map[string]string{"kafka-1": "10.77.0.11:8643", "kafka-2": "10.77.0.12:8643"} {
			m := machines[name]
			require.NoError(t, os.MkdirAll(m.Root.At(paths.Live), 0o755))
			live := m.Root.At(filepath.Join(paths.Live, node.APIProgram))
			require.NoError(t, os.Symlink(m.Root.At(paths.Secrets+"/api"), live))
			l, err := net.Listen("tcp", at)
			require.NoError(t, err)
			defer nodetest.Serve(t, m, func(ctx context.Context, m *node.Machine) error { return ServeOn(ctx, m, l) })()
		}
		admin, reader := operator(t, c, tree, pki.NodeAdmin), operator(t, c, tree, pki.NodeReader)
		push := nodeapi.Request{
			Method: "POST", Path: nodeapi.UpdatePath, Query: url.Values{"reboot": {"true"}},
			Body: strings.NewReader("secret content"),
		}
		_, err = admin.Read(t.Context(), "kafka-1", push, 1<<20)
		require.ErrorContains(t, err, "keep the update", "this node has no place for it")
		_, err = reader.Read(t.Context(), "kafka-1", push, 1<<20)
		require.ErrorContains(t, err, "is for certificates of")

		id, err := admin.Identity()
		require.NoError(t, err)
		for _, at := range []string{"10.77.0.11", "10.77.0.12"} {
			asked := map[string]string{"10.77.0.11": "kafka-1", "10.77.0.12": "kafka-2"}[at]
			reader.Addresses = func(string) ([]string, error) { return []string{at}, nil }
			var got []nodeapi.TrailRecord
			require.Eventually(t, func() bool {
				data, err := reader.Read(t.Context(), asked, nodeapi.Request{Path: nodeapi.TrailPath}, 1<<20)
				require.NoError(t, err)
				require.NotContains(t, string(data), "secret")
				got = nil
				malformed, err := nodeapi.ReadTrail(strings.NewReader(string(data)), func(r nodeapi.TrailRecord) error {
					got = append(got, r)
					return nil
				})
				require.NoError(t, err)
				require.Zero(t, malformed)
				return len(got) == 2
			}, 20*time.Second, 20*time.Millisecond, "only what was begun is a record: %v", got)
			require.Equal(t, nodeapi.Begun, got[0].Stage)
			require.Equal(t, nodeapi.Erred, got[1].Stage)
			require.Contains(t, got[1].Result, "keep the update")
			for _, r := range got {
				require.Equal(t, "kafka-1", r.Node)
				require.Equal(t, "update", r.Call)
				require.Equal(t, "anna", r.User)
				require.Equal(t, nodeapi.Admin, r.Role)
				require.Equal(t, serial(t, id), r.Serial)
				require.Regexp(t, `^10\.77\.0\.1\d:\d+$`, r.From)
				require.Equal(t, map[string]string{"reboot": "true"}, r.Arguments)
			}
		}
		since := func(text string) nodeapi.Request {
			return nodeapi.Request{Path: nodeapi.TrailPath, Query: url.Values{nodeapi.TrailSince: {text}}}
		}
		later := since(time.Now().Add(time.Hour).Format(time.RFC3339))
		data, err := reader.Read(t.Context(), "kafka-2", later, 1<<20)
		require.NoError(t, err)
		require.Empty(t, data)
		_, err = reader.Read(t.Context(), "kafka-2", since("yesterday"), 1<<20)
		require.ErrorContains(t, err, "it answers 400")
		own := machines["kafka-2"].Client()
		give := nodeapi.Request{Method: "POST", Path: nodeapi.TrailPath, Body: strings.NewReader("{}\n")}
		_, err = own.Read(t.Context(), "kafka-2", give, 1<<20)
		require.ErrorContains(t, err, "is not another node of this cluster", "nobody sends records to himself")
	})
}

// poke is a verb of a test.
var poke = nodeapi.Verb{
	Name: "poke", Kind: nodeapi.Acts, Who: nodeapi.Hands(), Arguments: []nodeapi.Argument{{Name: "unit"}},
}

// root is the unit that carries out verbs: it answers each call by one function.
func root(t *testing.T, m *node.Machine, answer func(c verbs.Call, conn net.Conn)) {
	t.Helper()
	socket := m.Root.At(verbs.Socket(nodeapi.Acts))
	require.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadBytes('\n')
			var c verbs.Call
			_ = json.Unmarshal(line, &c)
			answer(c, conn)
			_ = conn.Close()
		}
	}()
}

// order calls the verb of a test, and returns the records of it.
func order(t *testing.T, m *node.Machine, ctx context.Context, body string) []nodeapi.TrailRecord {
	t.Helper()
	k := &trail.Keeper{Dir: m.Root.At(paths.Trail), Node: "kafka-1", Say: m.Say, Now: time.Now, Random: rand.Reader}
	require.NoError(t, k.Open())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, nodeapi.VerbsPath+"poke", strings.NewReader(body))
	caller := nodeapi.Caller{Name: "anna", Serial: "4f", Roles: []nodeapi.Role{nodeapi.Operator}}
	hand(httptest.NewRecorder(), r, caller, m, k, poke)
	var out []nodeapi.TrailRecord
	require.NoError(t, k.Records(time.Time{}, func(r nodeapi.TrailRecord) error { out = append(out, r); return nil }))
	return out
}

func TestAnOrderIsARecordBeforeItIsCarriedOut(t *testing.T) {
	const silent = "it has ended without a word; see the journal of the node"
	for name, tc := range map[string]struct {
		answer string
		stage  nodeapi.Stage
		result string
	}{
		"done":              {`{"say":"now"}` + "\n\n" + `{"done":"poked kafka"}` + "\n", nodeapi.Did, "poked kafka"},
		"failed":            {`{"result":[1,2]}` + "\n" + `{"error":"no such unit"}` + "\n", nodeapi.Erred, "no such unit"},
		"without a word":    {`{"say":"now"}` + "\n", nodeapi.Erred, silent},
		"without any event": {"", nodeapi.Erred, silent},
	} {
		t.Run(name, func(t *testing.T) {
			m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
			m.Root = paths.Root(t.TempDir())
			root(t, m, func(c verbs.Call, conn net.Conn) {
				data, err := os.ReadFile(m.Root.At(paths.Trail + "/own/trail.jsonl"))
				if err == nil && strings.Contains(string(data), `"stage":"begun"`) {
					_, _ = conn.Write([]byte(tc.answer))
				}
			})
			got := order(t, m, t.Context(), `{"arguments":{"unit":"kafka"},"dryRun":true}`)
			require.Len(t, got, 2)
			require.Equal(t, nodeapi.Begun, got[0].Stage)
			require.Equal(t, tc.stage, got[1].Stage)
			require.Equal(t, tc.result, got[1].Result)
			require.Equal(t, got[0].ID, got[1].ID)
			require.Equal(t, map[string]string{"unit": "kafka"}, got[0].Arguments)
			require.True(t, got[0].DryRun)
			require.Equal(t, "poke", got[0].Call)
		})
	}
}

func TestAnOutcomeIsSaidInWords(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		text   string
		stage  nodeapi.Stage
		result string
	}{
		"no answer":          {202, "", nodeapi.Did, "answered 202"},
		"a refusal":          {507, "keep the update: no space\n", nodeapi.Erred, "keep the update: no space"},
		"an error":           {200, `{"node":"n-1","error":"it is older"}` + "\n", nodeapi.Erred, "it is older"},
		"pieces are to come": {200, `{"serial":8,"lacks":{}}` + "\n", nodeapi.Did, "update 8 is not whole yet"},
		"at once":            {200, `{"serial":8,"live":true}` + "\n", nodeapi.Did, "update 8 is in effect"},
		"at a start":         {200, `{"serial":8,"reboot":true}` + "\n", nodeapi.Did, "update 8 is on the disk; the node restarts"},
		"back":               {200, `{"serial":8,"back":true,"reboot":true}` + "\n", nodeapi.Did, "goes back from update 8"},
		"a dry run":          {200, `{"serial":8,"dryRun":true,"live":true}` + "\n", nodeapi.Did, "nothing was written, as was asked for"},
		"the last of lines":  {200, "one\ntwo\n", nodeapi.Did, "two"},
		"far too much":       {200, strings.Repeat("x", 2*maxOutcome), nodeapi.Did, strings.Repeat("x", maxOutcome)},
	} {
		o := &outcome{ResponseWriter: httptest.NewRecorder(), status: http.StatusOK}
		o.WriteHeader(tc.status)
		for part := range slices.Chunk([]byte(tc.text), 7) {
			_, err := o.Write(part)
			require.NoError(t, err)
		}
		stage, result := o.end()
		require.Equal(t, tc.stage, stage, name)
		require.Equal(t, tc.result, result, name)
	}
}

func TestWhatCameOfItIsKeptWhenTheCallerHasGone(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	m.Root = paths.Root(t.TempDir())
	ctx, leave := context.WithCancel(t.Context())
	root(t, m, func(_ verbs.Call, conn net.Conn) {
		leave()
		time.Sleep(100 * time.Millisecond)
		_, _ = conn.Write([]byte(`{"done":"poked all the same"}` + "\n"))
	})
	got := order(t, m, ctx, "{}")
	require.Len(t, got, 2)
	require.Equal(t, "poked all the same", got[1].Result)
}

func TestAnOrderThatIsRefusedIsNoRecord(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	m.Root = paths.Root(t.TempDir())
	require.Empty(t, order(t, m, t.Context(), `{"arguments":{"host":"kafka"}}`))
	require.Empty(t, order(t, m, t.Context(), "reboot"))
	got := order(t, m, t.Context(), "{}")
	require.Len(t, got, 2)
	require.Equal(t, nodeapi.Erred, got[1].Stage, "nobody is there who would do it")
	require.Contains(t, got[1].Result, "does not run")
}
