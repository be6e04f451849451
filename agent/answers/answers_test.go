package answers

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/netnstest"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/cluster/facts"
	"spore/pki"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// operator asks nodes with a certificate of a row of the operator's.
func operator(t *testing.T, c *facts.Cluster, tree *pki.Tree, row string) *nodeapi.Client {
	t.Helper()
	made, err := tree.Access(c, row, "anna", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	return &nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{Certificate: []byte(made.Certificate), Key: []byte(made.Key), Authorities: made.Authority}, nil
		},
		Addresses: func(string) ([]string, error) { return []string{"10.77.0.11"}, nil },
	}
}

// serial is the serial number of an identity's certificate.
func serial(t *testing.T, id nodeapi.Identity) string {
	t.Helper()
	pair, err := tls.X509KeyPair(id.Certificate, id.Key)
	require.NoError(t, err)
	return nodeapi.Serial(pair.Leaf.SerialNumber)
}

func TestANodeTellsItsOperatorHowItIs(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		netnstest.Address(t, "lo", "10.77.0.11/32")
		machines, c, tree := nodetest.BrokersWithKeys(t, "10.77.0.11", "10.77.0.12")
		m := machines["kafka-1"]
		lines := make(chan string, 100)
		m.Say = func(s string) {
			t.Log(s)
			select {
			case lines <- s:
			default:
			}
		}
		stop := nodetest.Serve(t, m, Serve)
		defer func() { stop() }()
		reader, admin := operator(t, c, tree, pki.NodeReader), operator(t, c, tree, pki.NodeAdmin)
		read := func(c *nodeapi.Client, path string) ([]byte, error) {
			var data []byte
			var err error
			require.Eventually(t, func() bool {
				data, err = c.Read(context.Background(), "kafka-1", nodeapi.Request{Path: path}, 1<<20)
				_, refused := err.(nodeapi.Refusal)
				return err == nil || refused
			}, 20*time.Second, 20*time.Millisecond, "it listens")
			return data, err
		}

		_, err = read(reader, nodeapi.StatusPath)
		require.ErrorContains(t, err, `it answers 503: "there is no status yet`)
		data, err := read(reader, nodeapi.HealthPath)
		require.NoError(t, err)
		h, err := nodeapi.ParseHealth(data, c.ID, "kafka-1")
		require.NoError(t, err)
		require.Equal(t, "agent", h.Conditions[0].Name)
		require.Contains(t, h.Conditions[0].Reason, "there is no status yet")
		require.Equal(t, []nodeapi.Member{{Service: "kafka", Of: []string{"kafka-1", "kafka-2"}, Reason: "kafka.service was not started"}}, h.Quorums)
		require.WithinDuration(t, time.Now(), h.Time, time.Minute)

		line := status.Line{Spore: 1, Cluster: "plant", Node: "kafka-1", System: "running", Roles: []string{"kafka-broker"}, Failed: []string{}}
		_, err = atomicfile.Write(m.Root.At(paths.Status), []byte(line.String()+"\n"), 0o644)
		require.NoError(t, err)
		for _, c := range []*nodeapi.Client{reader, admin} {
			data, err = read(c, nodeapi.StatusPath)
			require.NoError(t, err)
			require.Equal(t, line.String()+"\n", string(data), "the very line")
		}
		// Every push and every read of a journal is a line. What becomes of it is another thing: this node has no place for
		// what is pushed, and perhaps no journal.
		said := func(want string) {
			for line := ""; !strings.HasSuffix(line, want); {
				select {
				case line = <-lines:
				case <-time.After(20 * time.Second):
					require.Fail(t, "nobody says "+want)
				}
			}
		}
		logs := nodeapi.Request{Path: nodeapi.LogsPath, Query: url.Values{"unit": {"kafka"}}}
		push := nodeapi.Request{Method: "POST", Path: nodeapi.UpdatePath, Query: url.Values{"reboot": {"true"}}}
		_, _ = reader.Read(context.Background(), "kafka-1", logs, 1<<20)
		said(` asks GET "/v1/logs?unit=kafka"`)
		_, err = admin.Read(context.Background(), "kafka-1", push, 1<<20)
		require.ErrorContains(t, err, "keep the update")
		said(` asks POST "/v1/update?reboot=true"`)
		_, err = reader.Read(context.Background(), "kafka-1", push, 1<<20)
		require.ErrorContains(t, err, "is for certificates of spore:admin")
		said(`, which is refused: POST /v1/update is for certificates of spore:admin`)
		own := machines["kafka-2"].Client()
		_, err = read(&own, nodeapi.StatusPath)
		require.ErrorContains(t, err, "is for certificates of spore:admin or spore:operator or spore:reader")
		_, err = read(admin, nodeapi.FormationPath+"kafka")
		require.ErrorContains(t, err, "is for certificates of spore:nodes")
	})
}

func TestHealthIsAnswerableForAnyNode(t *testing.T) {
	machines, c, _ := nodetest.BrokersWithKeys(t, "10.77.0.11")
	m := machines["kafka-1"]
	_, _, n, err := m.Node()
	require.NoError(t, err)
	in := healthInput(t.Context(), m, c, n, nil)
	require.Equal(t, "it is not known how full "+m.Root.At("/var")+" is: no such file or directory", in.Var.Problem)
	require.True(t, in.CertificateEnds.IsZero(), "no certificate is there yet")
	require.True(t, in.AgentRuns, "where there are no control groups, it is not known")
	require.NoError(t, os.MkdirAll(m.Root.At(filepath.Dir(agentGroup)), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At(agentGroup), []byte("populated 0\nfrozen 0\n"), 0o644))
	require.False(t, agentRuns(m))
	require.NoError(t, os.WriteFile(m.Root.At(agentGroup), []byte("populated 1\nfrozen 0\n"), 0o644))
	require.True(t, agentRuns(m))
	require.NoError(t, os.RemoveAll(m.Root.At(filepath.Dir(agentGroup))))
	require.False(t, agentRuns(m), "its group went with it")
	require.NoError(t, os.MkdirAll(m.Root.At("/var"), 0o755))
	require.NotZero(t, healthInput(t.Context(), m, c, n, nil).Var.Bytes)
	_, err = json.Marshal(in)
	require.NoError(t, err)
}

func TestWithoutItsCredentialsNothingIsAnswered(t *testing.T) {
	m := nodetest.Brokers(t, "10.77.0.11")["kafka-1"]
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	require.ErrorContains(t, Serve(context.Background(), m), "CREDENTIALS_DIRECTORY")
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	require.ErrorContains(t, Serve(context.Background(), m), "of the node's agent")
}
