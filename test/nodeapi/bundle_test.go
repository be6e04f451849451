package nodeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/builder/cmd/exit"
	"spore/pki/bundle"
	"spore/pki/vault"
	"spore/wire/machine"
	protocol "spore/wire/nodeapi"
)

// keeper is a node that takes bundles: it has one when it was asked once, and its programs run with it when it was
// asked twice.
type keeper struct {
	mu   sync.Mutex
	has  protocol.Renewal
	sent []uint64
	// stuck is what it says that it waits for, for ever.
	stuck string
	// next is what it takes when it is asked next.
	next uint64
}

func (k *keeper) ask() protocol.Renewal {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.next > 0:
		k.has.Serial, k.has.Pending, k.next = k.next, []string{"mosquitto"}, 0
	case k.stuck == "":
		k.has.Pending = nil
	}
	k.has.Problem = k.stuck
	return k.has
}

// keeps has a node answer like this. Its first bundle is made for it.
func (d *desk) keeps(node string) *keeper {
	d.t.Helper()
	id := d.identity(node)
	v, err := vault.ReadPublic(d.path("configs.pki"))
	require.NoError(d.t, err)
	signing, err := v.SigningKeys()
	require.NoError(d.t, err)
	k := &keeper{has: protocol.Renewal{Serial: 1}}
	answer := func(w io.Writer, of any) { require.NoError(d.t, json.NewEncoder(w).Encode(of)) }
	show, _ := protocol.FindVerb("bundle")
	server := &api.Server{Say: func(string) {}, Now: time.Now, Identity: func() (protocol.Identity, error) { return id, nil }, Rows: []api.Row{
		{Method: http.MethodGet, Path: protocol.RenewalPath, Who: protocol.Lookers(),
			Handle: func(w http.ResponseWriter, _ *http.Request, _ protocol.Caller) { answer(w, k.ask()) }},
		{Method: http.MethodPost, Path: protocol.BundlePath, Who: protocol.Owners(), Body: bundle.MaxSize,
			Handle: func(w http.ResponseWriter, r *http.Request, _ protocol.Caller) {
				b, err := bundle.Open(r.Body, bundle.Whose{Cluster: d.cluster.ID, Node: node, Keys: signing})
				if err != nil {
					http.Error(w, err.Error(), http.StatusUnprocessableEntity)
					return
				}
				k.mu.Lock()
				defer k.mu.Unlock()
				k.sent, k.next = append(k.sent, b.Serial), b.Serial
				w.WriteHeader(http.StatusAccepted)
			}},
		{Method: http.MethodPost, Path: protocol.VerbsPath + show.Name, Who: show.Who, Body: protocol.MaxOrder, Bound: time.Minute,
			Handle: func(w http.ResponseWriter, _ *http.Request, _ protocol.Caller) {
				k.mu.Lock()
				defer k.mu.Unlock()
				made := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
				data, err := json.Marshal(machine.Bundle{
					Serial: k.has.Serial, Made: made, From: "network", Sealed: "tpm2", Pending: k.has.Pending,
					Certificates: []machine.Certificate{{Name: "agent", Made: made, Ends: made.AddDate(1, 0, 0)}, {Name: "mqtt\x1b[2J", Problem: "it is not PEM"}},
				})
				require.NoError(d.t, err)
				answer(w, protocol.Event{Result: data})
				answer(w, protocol.Event{Done: "done"})
			}},
	}}
	l := listen(d.t, d.at[node])
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	d.t.Cleanup(func() { cancel(); require.NoError(d.t, <-done) })
	return k
}

const bundleLine = "bundle 1, made 2026-03-01T12:00:00Z, from the network, sealed to the TPM; the first certificate ends 2027-03-01\n"

func TestWhichBundleNodesHaveIsShown(t *testing.T) {
	d := newDesk(t)
	d.keeps("edge-01")
	k := d.keeps("kafka-01")
	k.has.Pending = []string{"kafka"}
	code, out, errs := d.ask("bundle", "--node", "edge-01", "--node", "kafka-01")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, "kafka-01: "+bundleLine+"  has yet to restart kafka\nedge-01: "+bundleLine, out)
	code, out, errs = d.ask("bundle", "--node", "edge-01")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, "edge-01: "+bundleLine+"  CERTIFICATE  MADE        ENDS\n  agent        2026-03-01  2027-03-01\n"+
		"  mqtt\\x1b[2J  -           it is not PEM\n", out)
	code, out, errs = d.ask("bundle", "--json", "--node", "edge-01", "--node", "storage-01")
	require.Equal(t, exit.Failed, code, errs)
	require.Contains(t, out, "connection refused")
	require.Contains(t, out, `"sealed": "tpm2"`)
}

func TestABundleIsMadeSentAndWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	one, two := d.keeps("kafka-01"), d.keeps("edge-01")
	code, _, errs := d.ask("bundle", "--node", "edge-01", "--node", "kafka-01", "--make", "--dry-run")
	require.Equal(t, exit.OK, code, errs)
	require.Equal(t, "kafka-01: has bundle 1, and would be sent a new one; nothing was done\n"+
		"edge-01: has bundle 1, and would be sent a new one; nothing was done\n", errs)
	require.Empty(t, one.sent)

	two.has.Serial = 1
	code, _, errs = d.ask("bundle", "--node", "edge-01", "--make")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "it has bundle 1, and the operator's folder, which is from before, made bundle 1; run this again")
	require.Empty(t, two.sent)

	code, out, errs := d.ask("bundle", "--node", "edge-01", "--node", "kafka-01", "--make")
	require.Equal(t, exit.OK, code, errs)
	require.Empty(t, out)
	require.Len(t, one.sent, 1)
	require.Len(t, two.sent, 1)
	require.Regexp(t, `^kafka-01: waiting until it has restarted mosquitto
kafka-01: done, with bundle \d
edge-01: waiting until it has restarted mosquitto
edge-01: done, with bundle \d
kafka-01: runs with bundle \d, made 2026-03-01T12:00:00Z, from the network, sealed to the TPM; the first certificate ends 2027-03-01
edge-01: runs with `, errs)
	require.NotContains(t, errs, "PRIVATE")
}

func TestABundleOfAFileIsSentToItsNode(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	k, other := d.keeps("edge-01"), d.keeps("kafka-01")
	code, _, errs := d.run(t.Context(), "pki", "bundle", d.path("configs"), "--all", "-o", d.path("bundles"))
	require.Equal(t, exit.OK, code, errs)
	file := d.path("bundles/edge-01.bundle")
	code, _, errs = d.ask("bundle", "--node", "edge-01", "--send", file, "--dry-run")
	require.Equal(t, exit.OK, code, errs)
	require.Regexp(t, `edge-01: has bundle 1, and would be sent bundle \d+; nothing was done`, errs)
	code, out, errs := d.ask("bundle", "--node", "edge-01", "--send", file, "--json")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, `"done": "runs with bundle`)
	require.Len(t, k.sent, 1)
	code, _, errs = d.ask("bundle", "--node", "edge-01", "--send", file)
	require.Equal(t, exit.OK, code, errs)
	require.Len(t, k.sent, 1, "what it has is not sent again")
	code, _, errs = d.ask("bundle", "--node", "edge-01", "--node", "kafka-01", "--send", d.path("bundles"))
	require.Equal(t, exit.OK, code, errs)
	require.Len(t, other.sent, 1)

	// What does not go is said before anything is sent.
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	wrong := func(name string, data []byte) string {
		require.NoError(t, os.WriteFile(d.path(name), data, 0o600))
		return d.path(name)
	}
	k.has.Serial++
	for args, want := range map[[2]string]string{
		{"edge-01", file}:                                            "and takes no older one, such as",
		{"kafka-01", file}:                                           "it is for node \"edge-01\"",
		{"edge-01", d.path("nothing")}:                               "no such file",
		{"edge-01", wrong("cut", whole[:100])}:                       "the secret bundle is malformed",
		{"edge-01", wrong("empty", nil)}:                             "the secret bundle is malformed",
		{"edge-01", wrong("age", []byte("age-encryption.org/v1\n"))}: "encrypted with a passphrase",
	} {
		code, _, errs = d.ask("bundle", "--node", args[0], "--send", args[1])
		require.Equal(t, exit.Failed, code, "%v", args)
		require.Contains(t, errs, want)
	}
	code, _, errs = d.ask("bundle", "--node", "kafka-01", "--send", wrong("changed", bytes.Replace(must(t, d.path("bundles/kafka-01.bundle")), []byte(`"serial":`), []byte(`"serial":1`), 1)))
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "not signed by this cluster", "the node verifies it")
	require.Len(t, k.sent, 1)
	require.Len(t, other.sent, 1)
}

func must(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func TestANodeThatIsNotReadyForABundleIsLeft(t *testing.T) {
	d := newDesk(t)
	one, two := d.keeps("kafka-01"), d.keeps("edge-01")
	one.has.Pending, one.stuck = []string{"kafka"}, "kafka-02 restarts first"
	code, _, errs := d.ask("bundle", "--node", "edge-01", "--node", "kafka-01", "--make")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "kafka-01 has yet to restart kafka (kafka-02 restarts first); nothing was sent")
	require.Contains(t, errs, "1 nodes after kafka-01 were left as they are")
	require.Empty(t, one.sent)
	require.Empty(t, two.sent)
	for _, args := range [][]string{
		{"--make"}, {"--make", "--access", "x", "--all"}, {"--make", "--send", "x", "--all"}, {"--all"}, {"--dry-run"}, {"--make", "--all", "--node", "edge-01"},
		{"--send", d.path("configs/cluster.yaml"), "--node", "edge-01", "--node", "kafka-01"}, {"--node", "nobody"},
	} {
		code, _, errs = d.ask("bundle", args...)
		require.Equal(t, exit.Misuse, code, "%v: %s", args, errs)
	}
}

func TestWhoMaySendABundle(t *testing.T) {
	d := newDesk(t)
	k := d.keeps("edge-01")
	for _, role := range []string{"reader", "operator"} {
		code, _, errs := d.run(t.Context(), "access", d.path("configs"), "--role", role, "-o", d.path(role))
		require.Equal(t, exit.OK, code, errs)
		code, _, errs = d.ask("bundle", "--node", "edge-01", "--access", d.path(role))
		require.Equal(t, exit.OK, code, errs)
		code, _, errs = d.ask("bundle", "--node", "edge-01", "--send", "x", "--access", d.path(role))
		require.Equal(t, exit.Failed, code)
		require.Contains(t, errs, "make one with `spore access --role admin`")
	}
	require.Empty(t, k.sent)
}
