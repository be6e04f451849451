package nodeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/builder/cmd/exit"
	protocol "spore/wire/nodeapi"
)

// plant is some nodes that carry out verbs by themselves, and what they were asked for.
type plant struct {
	mu    sync.Mutex
	boots map[string]int
	// asked has each order, as "NODE VERB ORDER".
	asked []string
	// off are nodes that were switched off: they close each connection.
	off map[string]bool
	// answers has the lines of an answer to a verb, or to the verb of a node ("NODE VERB"); a node without one is fine
	// with it.
	answers map[string][]protocol.Event
}

// serve has a node carry out verbs: whoever is asked to reboot is in another boot a moment later.
func (p *plant) serve(d *desk, node string) {
	d.t.Helper()
	id := d.identity(node)
	status := func(w http.ResponseWriter, _ *http.Request, _ protocol.Caller) {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = fmt.Fprintf(w, `{"spore":1,"cluster":%q,"node":%q,"system":"running","bootID":"b%d"}`, d.cluster.Name, node, p.boots[node])
	}
	rows := []api.Row{{Method: http.MethodGet, Path: protocol.StatusPath, Who: protocol.Lookers(), Handle: status}}
	for _, v := range protocol.Verbs() {
		rows = append(rows, api.Row{
			Method: http.MethodPost, Path: protocol.VerbsPath + v.Name, Who: v.Who, Body: protocol.MaxOrder, AtOnce: 1, Bound: time.Minute,
			Handle: func(w http.ResponseWriter, r *http.Request, _ protocol.Caller) {
				data, err := io.ReadAll(r.Body)
				var o protocol.Order
				if err == nil {
					o, err = protocol.ParseOrder(data)
				}
				if err == nil {
					err = v.Check(o)
				}
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				p.answer(w, node, v.Name, o)
			},
		})
	}
	server := &api.Server{Say: func(string) {}, Now: time.Now, Identity: func() (protocol.Identity, error) { return id, nil }, Rows: rows}
	l := switched{listen(d.t, d.at[node]), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.off[node]
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	d.t.Cleanup(func() { cancel(); require.NoError(d.t, <-done) })
}

// switched is the listener of a machine that can be switched off.
type switched struct {
	net.Listener
	off func() bool
}

func (s switched) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err == nil && s.off() {
		_ = c.Close()
	}
	return c, err
}

func (p *plant) answer(w io.Writer, node, verb string, o protocol.Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	order, _ := json.Marshal(o)
	p.asked = append(p.asked, fmt.Sprintf("%s %s %s", node, verb, order))
	events := p.answers[node+" "+verb]
	if events == nil {
		events = p.answers[verb]
	}
	if events == nil {
		result := fmt.Appendf(nil, `{"bootID":"b%d"}`, p.boots[node])
		events = []protocol.Event{{Say: "works"}, {Result: result}, {Done: "it is done"}}
		if verb == "reboot" && !o.DryRun {
			p.boots[node]++
		}
		if verb == "shutdown" && !o.DryRun {
			p.off[node] = true
		}
	}
	for _, e := range events {
		data, _ := json.Marshal(e)
		_, _ = w.Write(append(data, '\n'))
	}
}

func newPlant(d *desk, nodes ...string) *plant {
	p := &plant{boots: map[string]int{}, off: map[string]bool{}, answers: map[string][]protocol.Event{}}
	for _, n := range nodes {
		p.serve(d, n)
	}
	return p
}

func TestNodesRestartOneAfterTheOther(t *testing.T) {
	d := newDesk(t)
	p := newPlant(d, "edge-01", "kafka-01")
	code, out, errs := d.ask("reboot", "--node", "edge-01", "--node", "kafka-01")
	require.Equal(t, exit.OK, code, errs)
	require.Empty(t, out)
	require.Equal(t, []string{"kafka-01 reboot {}", "edge-01 reboot {}"}, p.asked, "in the order of cluster.yaml")
	require.Equal(t, "kafka-01: works\nedge-01: works\nkafka-01: restarted, and up\nedge-01: restarted, and up\n", errs)

	p.asked, p.answers["kafka-01 reboot"] = nil, []protocol.Event{{Error: "a restart takes kafka below its majority"}}
	code, out, errs = d.ask("reboot", "--node", "edge-01", "--node", "kafka-01", "--json")
	require.Equal(t, exit.Failed, code)
	require.Equal(t, []string{"kafka-01 reboot {}"}, p.asked, "the other one stays")
	require.Contains(t, errs, "1 nodes after kafka-01 were left as they are")
	require.JSONEq(t, `[{"node":"kafka-01","error":"a restart takes kafka below its majority"}]`, out)

	p.asked = nil
	code, _, errs = d.ask("reboot", "--node", "kafka-01", "--dry-run", "--force", "kafka")
	require.Equal(t, exit.Failed, code, errs)
	require.Equal(t, []string{`kafka-01 reboot {"dryRun":true,"force":"kafka"}`}, p.asked)
	for _, args := range [][]string{{}, {"--all", "--node", "edge-01"}, {"--node", "nobody"}, {"--node", "edge-01", "--force", "a\nb"}} {
		code, _, errs = d.ask("reboot", args...)
		require.Equal(t, exit.Misuse, code, "%v: %s", args, errs)
	}
	require.Len(t, p.asked, 1)
}

func TestNodesAreSwitchedOffOneAfterTheOtherUntilOneRefuses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := newPlant(d, "kafka-01", "storage-01", "edge-01")
	const why = "a stop of the machine takes ceph-mon below its majority: without storage-01 1 of 3 members serve, and 2 are needed; --force ceph-mon does it nevertheless"
	p.answers["storage-01 shutdown"] = []protocol.Event{{Error: why}}
	code, out, errs := d.ask("shutdown", "--node", "edge-01", "--node", "kafka-01", "--node", "storage-01")
	require.Equal(t, exit.Failed, code, errs)
	require.Empty(t, out)
	require.Equal(t, []string{"kafka-01 shutdown {}", "storage-01 shutdown {}"}, p.asked)
	require.Contains(t, errs, "kafka-01: answers no more, and switches itself off\n")
	require.Contains(t, errs, "storage-01: "+why+"\n")
	require.Contains(t, errs, "1 nodes after storage-01 were left as they are")
	require.Equal(t, map[string]bool{"kafka-01": true}, p.off)

	// The consent is for one quorum, and each node is asked with it.
	p.asked, p.answers["storage-01 shutdown"] = nil, nil
	code, _, errs = d.ask("shutdown", "--node", "edge-01", "--node", "storage-01", "--force", "ceph-mon")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, []string{`storage-01 shutdown {"force":"ceph-mon"}`, `edge-01 shutdown {"force":"ceph-mon"}`}, p.asked)
	code, _, errs = d.ask("shutdown", "--node", "edge-01")
	require.Equal(t, exit.Failed, code, errs)
	for _, args := range [][]string{{}, {"--all", "--node", "edge-01"}, {"--node", "nobody"}, {"--node", "edge-01", "--force", "a\nb"}} {
		code, _, errs = d.ask("shutdown", args...)
		require.Equal(t, exit.Misuse, code, "%v: %s", args, errs)
	}
}

func TestAUnitIsRestarted(t *testing.T) {
	d := newDesk(t)
	p := newPlant(d, "edge-01")
	code, _, errs := d.ask("restart", "edge-01", "mosquitto", "--force", "kafka")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, []string{`edge-01 restart {"arguments":{"unit":"mosquitto"},"force":"kafka"}`}, p.asked)
	require.Equal(t, "edge-01: works\nedge-01: it is done\n", errs)
	code, _, errs = d.ask("restart", "edge-01", "a b")
	require.Equal(t, exit.Misuse, code)
	require.Contains(t, errs, "is not a name of a unit or of a role")
	p.answers["restart"] = []protocol.Event{{Say: "\x1b[31mred"}, {Error: "it\x1b[2Jfailed"}}
	code, _, errs = d.ask("restart", "edge-01", "mosquitto")
	require.Equal(t, exit.Failed, code)
	require.NotContains(t, errs, "\x1b", "what a terminal would obey does not reach it")
}

func TestADiskIsResetWhenItsNameWasRepeated(t *testing.T) {
	d := newDesk(t)
	p := newPlant(d, "edge-01")
	p.answers["reset"] = []protocol.Event{{Result: []byte(`{"disk":"/dev/sda","name":"S1","size":1073741824,"state":true}`)}, {Done: "done"}}
	const look, order = `edge-01 reset {"arguments":{"disk":""},"dryRun":true}`, `edge-01 reset {"arguments":{"disk":""},"confirm":"S1"}`
	code, _, errs := d.ask("reset", "edge-01", "--confirm", "S1")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, []string{look, order}, p.asked)
	p.asked = nil
	for _, args := range [][]string{{}, {"--confirm", "S2"}} {
		code, _, errs = d.ask("reset", append([]string{"edge-01"}, args...)...)
		require.Equal(t, exit.Misuse, code, errs)
	}
	require.Contains(t, errs, `--confirm is "S2", and this is about S1`)
	code, _, errs = d.ask("reset", "edge-01", "--dry-run")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, []string{look, look, look}, p.asked, "nothing else was ordered")
	p.answers["reset"] = []protocol.Event{{Result: []byte(`7`)}, {Done: "done"}}
	code, _, errs = d.ask("reset", "edge-01", "--confirm", "S1")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "the node does not say which disk it is")
}

func TestASystemIsInstalledWhenTheDiskWasRepeated(t *testing.T) {
	d := newDesk(t)
	p := newPlant(d, "edge-01")
	p.answers["install"] = []protocol.Event{
		{Result: []byte(`{"disk":"/dev/sda","name":"S1","size":1073741824,"holds":"a system of Spore\u001b[2J","kept":["3d12"]}`)}, {Done: "done"},
	}
	const look, order = `edge-01 install {"arguments":{"disk":"S1"},"dryRun":true}`, `edge-01 install {"arguments":{"disk":"S1"},"confirm":"S1"}`
	code, _, errs := d.ask("install", "edge-01", "S1", "--confirm", "S1")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, []string{look, order}, p.asked)
	p.asked = nil
	code, _, errs = d.ask("install", "edge-01", "S1", "--dry-run")
	require.Equal(t, exit.OK, code, errs)
	for _, args := range [][]string{{}, {"--confirm", "S2"}} {
		code, _, errs = d.ask("install", append([]string{"edge-01", "S1"}, args...)...)
		require.Equal(t, exit.Misuse, code, errs)
		require.NotContains(t, errs, "\x1b")
	}
	require.Equal(t, []string{look, look, look}, p.asked, "nothing else was ordered")
	p.asked = nil
	code, _, errs = d.ask("install", "edge-01", "S1", "--erase-state")
	require.Equal(t, exit.Misuse, code, errs)
	require.Contains(t, errs, "; state on it is given up; confirm it with --confirm S1")
	p.asked = nil
	code, _, errs = d.ask("install", "edge-01", "S1", "--erase-state", "--without-bundle", "--confirm", "S1")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, `edge-01 install {"arguments":{"disk":"S1","erase-state":"yes","without-bundle":"yes"},"confirm":"S1"}`, p.asked[1])
	for _, args := range [][]string{{}, {"edge-01", " S1"}, {"nobody", "S1"}} {
		code, _, errs = d.ask("install", args...)
		require.Equal(t, exit.Misuse, code, "%v: %s", args, errs)
	}
	p.answers["install"][0].Result = []byte(`{"disk":"/dev/sda","name":"S1\u001b[2J","size":1,"holds":"nothing"}`)
	for _, args := range [][]string{{}, {"--confirm", "S1"}} {
		code, _, errs = d.ask("install", append([]string{"edge-01", "S1"}, args...)...)
		require.Equal(t, exit.Misuse, code, errs)
		require.NotContains(t, errs, "\x1b", "what a disk calls itself is not obeyed")
	}
}

func TestNodesMakeRoom(t *testing.T) {
	d := newDesk(t)
	p := newPlant(d, "edge-01", "kafka-01")
	p.answers["clean"] = []protocol.Event{
		{Result: []byte(`{"things":[{"path":"/var/log/j","about":"closed journal","bytes":1048576}],"folders":[{"path":"/var/lib/x\u001b[1m","bytes":3}]}`)},
		{Done: "removed"},
	}
	code, out, errs := d.ask("clean", "--node", "edge-01", "--node", "kafka-01", "--journal", "32")
	require.Equal(t, exit.OK, code, errs)
	require.ElementsMatch(t, []string{`edge-01 clean {"arguments":{"journal":"32"}}`, `kafka-01 clean {"arguments":{"journal":"32"}}`}, p.asked)
	require.Contains(t, out, "edge-01  remove  1.0 MiB  /var/log/j (closed journal)\n")
	require.Contains(t, out, `takes`)
	require.NotContains(t, out, "\x1b")
	p.asked = nil
	for _, args := range [][]string{
		{}, {"--all", "--node", "edge-01"}, {"--node", "edge-01", "--journal", "1"}, {"--all", "--given-up"},
		{"--node", "edge-01", "--given-up"}, {"--node", "edge-01", "--given-up", "--confirm", "kafka-01"},
	} {
		code, _, errs = d.ask("clean", args...)
		require.Equal(t, exit.Misuse, code, "%v: %s", args, errs)
	}
	require.Empty(t, p.asked)
	p.answers["clean-given-up"] = []protocol.Event{{Result: []byte(`{"things":[]}`)}, {Done: "removed"}}
	code, _, errs = d.ask("clean", "--node", "edge-01", "--given-up", "--confirm", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, []string{`edge-01 clean-given-up {"confirm":"edge-01"}`}, p.asked)
	p.answers["clean"] = []protocol.Event{{Result: []byte(`7`)}, {Done: "done"}}
	code, _, errs = d.ask("clean", "--node", "edge-01")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "the answer is malformed")
}

func TestStateIsAdoptedWhenItsNameWasRepeated(t *testing.T) {
	const one, two = "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4", "4d1219c7-c4c5-404a-aa1f-6d2a48adfda4"
	d := newDesk(t)
	p := newPlant(d, "edge-01")
	list := func(ids ...string) []protocol.Event {
		var some []map[string]any
		for _, id := range ids {
			some = append(some, map[string]any{"disk": "/dev/sdb", "serial": "S2", "partition": id, "size": 1 << 30, "node": "edge-07\x1b[2J", "cluster": "c"})
		}
		data, err := json.Marshal(some)
		require.NoError(t, err)
		return []protocol.Event{{Result: data}, {Done: "done"}}
	}
	p.answers["adopt"] = list(one)
	code, out, errs := d.ask("adopt", "edge-01", "--dry-run")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, one+` on /dev/sdb (serial S2, 1024 MiB), of node edge-07\x1b[2J of cluster c`+"\n", out)
	p.asked = nil
	code, _, errs = d.ask("adopt", "edge-01", "--confirm", one)
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, `edge-01 adopt {"arguments":{"partition":"`+one+`"},"confirm":"`+one+`"}`, p.asked[1], "the only one")

	p.asked, p.answers["adopt"] = nil, list(one, two)
	code, _, errs = d.ask("adopt", "edge-01", "--confirm", one)
	require.Equal(t, exit.Misuse, code)
	require.Contains(t, errs, "there are 2 partitions; name one with --partition")
	code, _, errs = d.ask("adopt", "edge-01", "--partition", two, "--confirm", one)
	require.Equal(t, exit.Misuse, code, errs)
	p.answers["adopt"] = list()
	code, _, errs = d.ask("adopt", "edge-01", "--confirm", one)
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "the node's disks have no state of another node")
	require.Len(t, p.asked, 3, "nothing was ordered")
}

func TestANodeThatFailsGivesWhatItCouldBefore(t *testing.T) {
	d := newDesk(t)
	p := newPlant(d, "edge-01")
	part := func(text string) protocol.Event { return protocol.Event{Result: []byte(text)} }
	p.answers["support"] = []protocol.Event{
		part(`{"file":"x.html","text":"<script>"}`), part(`{"file":"net.json","text":"[]"}`), {Error: "no room:\n\x1b[2Jthe disk is full"},
	}
	file := filepath.Join(t.TempDir(), "plant.tar.zst")
	code, out, errs := d.ask("support", "--node", "edge-01", "-o", file)
	require.Equal(t, exit.Failed, code, errs)
	require.Contains(t, errs, "edge-01: no room:\n  \\x1b[2Jthe disk is full\n")
	require.Regexp(t, `: 1 nodes, [0-9.]+ (B|KiB); unpack it`, out)
	require.FileExists(t, file, "what there is is kept")
	require.Len(t, p.asked, 1, "the node itself asks for disks, network and load")
}
