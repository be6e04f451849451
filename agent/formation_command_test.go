package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/activate"
	"spore/agent/atomicfile"
	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/formation"
	"spore/agent/netnstest"
	"spore/agent/paths"
	"spore/agent/secrets"
	"spore/agent/status"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/pki"
	"spore/pki/bundle"
)

// brokers makes the machines of a cluster of Kafka with their bundles taken. They share the addresses of this machine.
func brokers(t *testing.T, addresses ...string) map[string]*machine {
	t.Helper()
	machines, _, _ := brokersWithKeys(t, addresses...)
	return machines
}

// brokersWithKeys is brokers, with what the operator has.
func brokersWithKeys(t *testing.T, addresses ...string) (map[string]*machine, *facts.Cluster, *pki.Tree) {
	t.Helper()
	config := &cluster.Config{
		Cluster:  spec.Cluster{Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example", Services: []string{"kafka"}},
		Services: spec.Services{&spec.Kafka{}},
	}
	names := []string{"kafka-1", "kafka-2", "kafka-3"}[:len(addresses)]
	for i, name := range names {
		config.Cluster.Nodes = append(config.Cluster.Nodes, spec.Node{Name: name, IPs: []string{addresses[i]}, Roles: []string{"kafka-broker"}})
	}
	files, err := cluster.Compile(config)
	require.NoError(t, err)
	c, nodes := cluster.Facts(config)
	tree := pki.New(&c)
	now := time.Now()
	_, err = tree.Update(&c, nodes, pki.Options{Now: now, Random: rand.Reader})
	require.NoError(t, err)
	for name, data := range tree.Public().Files() {
		files[name] = data
	}
	keys, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	out := map[string]*machine{}
	for i := range nodes {
		m := newMachine(paths.Root(t.TempDir()))
		m.say = func(s string) { t.Log(nodes[i].Name + ": " + s) }
		for name, data := range files {
			_, err := atomicfile.Write(filepath.Join(m.root.At(bootinfo.ClusterDir), name), data, 0o644)
			require.NoError(t, err)
		}
		require.NoError(t, atomicfile.WriteJSON(m.root.At(paths.Identity), detect.Identity{Result: identity.Result{Node: nodes[i].Name, By: "mac", Phase: 1}}))
		data, err := tree.BundleFor(&c, &nodes[i], now)
		require.NoError(t, err)
		b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: nodes[i].Name, Keys: keys})
		require.NoError(t, err)
		_, err = secrets.Install(m.root.At(paths.Secrets), b.Secrets, activate.Secrets(&c, &nodes[i]))
		require.NoError(t, err)
		out[nodes[i].Name] = m
	}
	return out, &c, tree
}

// serve is spore-api.service of a machine.
func serve(t *testing.T, m *machine) (stop func()) {
	t.Helper()
	credentials := t.TempDir()
	dir := m.root.At(paths.Secrets + "/api")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "its unit is given the agent's certificate and key, and nothing else")
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(credentials, "secret_"+e.Name()), data, 0o600))
	}
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- dispatch(ctx, m, []string{"spore-agent", "api"}) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func TestAWipedBrokerWaitsAndJoinsTheOneThatHasData(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		netnstest.Address(t, "lo", "10.77.0.11/32")
		machines := brokers(t, "10.77.0.11", "10.77.0.12")
		full, wiped := machines["kafka-1"], machines["kafka-2"]
		none := func(context.Context, formation.Plan) error { return errors.New("there is data") }
		kind, err := full.enterQuorum(context.Background(), formation.Kafka(), func() (bool, error) { return false, nil }, none)
		require.NoError(t, err)
		require.Equal(t, formation.Run, kind)

		plans := make(chan formation.Plan, 1)
		done := make(chan error, 1)
		go func() {
			_, err := wiped.enterQuorum(context.Background(), formation.Kafka(), func() (bool, error) { return true, nil }, func(_ context.Context, p formation.Plan) error {
				plans <- p
				return nil
			})
			done <- err
		}()
		require.Eventually(t, func() bool {
			return strings.Contains(wiped.waiting()["kafka"], "waiting for kafka-1 (no answer: connect: connection refused)")
		}, 20*time.Second, 10*time.Millisecond)
		require.Contains(t, text(status.Line{Waiting: wiped.waiting()}), "waiting    kafka: waiting for kafka-1")
		err = dispatch(context.Background(), wiped, []string{"spore-agent", "formation", "force", "kafka"})
		require.ErrorContains(t, err, "kafka-1 does not answer")
		require.ErrorContains(t, err, "spore-agent formation force kafka --lose kafka-1")

		stop := serve(t, full)
		require.NoError(t, <-done)
		require.Equal(t, formation.Join, (<-plans).Kind)
		require.Empty(t, wiped.waiting())
		err = dispatch(context.Background(), wiped, []string{"spore-agent", "formation", "force", "kafka"})
		require.ErrorContains(t, err, "kafka-1 has data")
		require.NoError(t, dispatch(context.Background(), wiped, []string{"spore-agent", "formation", "show"}))
		require.NoError(t, dispatch(context.Background(), wiped, []string{"spore-agent", "formation", "show", "--json"}))
		stop()

		require.NoError(t, dispatch(context.Background(), wiped, []string{"spore-agent", "formation", "force", "kafka", "--lose", "kafka-1,kafka-2"}))
		kind, err = wiped.enterQuorum(context.Background(), formation.Kafka(), func() (bool, error) { return false, nil }, func(_ context.Context, p formation.Plan) error {
			require.Equal(t, []string{"kafka-2"}, p.Names())
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, formation.Form, kind)
	})
}

func TestWrongUsageOfFormation(t *testing.T) {
	m := brokers(t, "10.77.0.11")["kafka-1"]
	for _, args := range [][]string{{}, {"x"}, {"show", "x"}, {"force"}, {"force", "kafka", "--lose"}, {"force", "mqtt"}} {
		require.ErrorAs(t, dispatch(context.Background(), m, append([]string{"spore-agent", "formation"}, args...)), new(usageError), "%v", args)
	}
	require.ErrorContains(t, dispatch(context.Background(), m, []string{"spore-agent", "formation", "force", "ceph-mon"}), "is no member of ceph-mon")
}

func TestWithoutItsCredentialsNothingIsAnswered(t *testing.T) {
	m := brokers(t, "10.77.0.11")["kafka-1"]
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	require.ErrorContains(t, dispatch(context.Background(), m, []string{"spore-agent", "api"}), "CREDENTIALS_DIRECTORY")
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	require.ErrorContains(t, dispatch(context.Background(), m, []string{"spore-agent", "api"}), "of the node's agent")
}
