package unit

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/formation"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kafka"
	"spore/services/kafka/kraft"
)

// saltedEntry is what a bundle has of a user.
func saltedEntry(fill byte) string {
	long := func(n int) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(fill), n))) }
	return `SCRAM-SHA-512=[iterations=8192,salt="` + long(24) + `",saltedpassword="` + long(64) + `"]`
}

func kafkaCluster() *facts.Cluster {
	return &facts.Cluster{
		Members:  map[string][]string{"kafka-broker": {"node-00001"}, "kafka-controller": {"node-00000"}},
		Services: spec.Services{&kafka.Settings{Users: []kafka.User{{Name: "sensor", Password: spec.SecretRef{SecretRef: "kafka-password-sensor"}}}}},
	}
}

func TestUsersOfKafkaComeFromWhatTheUnitWasGiven(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	give := func(ref, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "secret_"+ref), []byte(text), 0o600))
	}
	c := kafkaCluster()
	give("kafka-scram-admin", saltedEntry('a'))
	_, err := usersOf(c)
	require.ErrorContains(t, err, "secret kafka-password-sensor of this unit")
	give("kafka-password-sensor", "hunter two")
	_, err = usersOf(c)
	require.ErrorContains(t, err, "the secret kafka-password-sensor of the user sensor: it is not a salted password")
	require.NotContains(t, err.Error(), "hunter")
	give("kafka-password-sensor", saltedEntry('s')+"\n")
	users, err := usersOf(c)
	require.NoError(t, err)
	require.Equal(t, map[string]kraft.Credential{
		"admin":  {Iterations: 8192, Salt: []byte(strings.Repeat("a", 24)), Salted: []byte(strings.Repeat("a", 64))},
		"sensor": {Iterations: 8192, Salt: []byte(strings.Repeat("s", 24)), Salted: []byte(strings.Repeat("s", 64))},
	}, users)
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	_, err = usersOf(c)
	require.ErrorContains(t, err, "CREDENTIALS_DIRECTORY is not set")
}

// Every controller computes the same voters, whoever it is.
func TestTheVotersThatFormAQuorum(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	plan := formation.Plan{Kind: formation.Form, Nonce: "aa", Members: map[string]string{"node-00001": "bb", "node-00000": "aa"}}
	voters, err := votersOf(m, "jQOgxHcCSdOgvu-ipSqdFQ", plan)
	require.NoError(t, err)
	require.Equal(t, []kraft.Voter{
		{Node: kafka.ID("node-00000"), Address: "10.64.1.1:9094", Directory: kraft.DirectoryID("jQOgxHcCSdOgvu-ipSqdFQ", "node-00000", "aa")},
		{Node: kafka.ID("node-00001"), Address: "10.64.1.2:9094", Directory: kraft.DirectoryID("jQOgxHcCSdOgvu-ipSqdFQ", "node-00001", "bb")},
	}, voters)
	plan.Members["node-99999"] = "cc"
	_, err = votersOf(m, "jQOgxHcCSdOgvu-ipSqdFQ", plan)
	require.ErrorContains(t, err, "node-99999")
}

func TestWhereANodeKeepsKafkasData(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret_kafka-cluster-id"), []byte("jQOgxHcCSdOgvu-ipSqdFQ\n"), 0o600))
	disks := []spec.Disk{{Use: "state"}, {Use: "kafka"}, {Use: "osd"}, {Use: "kafka"}}
	for _, tt := range []struct {
		name  string
		node  facts.Node
		data  string
		disks []string
	}{
		{"a broker", facts.Node{Name: "node-00001"}, "/var/lib/kafka/data", nil},
		{"a broker with disks", facts.Node{Name: "node-00001", Disks: disks}, "", []string{"/var/lib/kafka/disks/1/log", "/var/lib/kafka/disks/2/log"}},
		{"a controller", facts.Node{Name: "node-00000"}, "", nil},
	} {
		s, err := storageOf(kafkaCluster(), &tt.node)
		require.NoError(t, err)
		require.Equal(t, &kraft.Storage{
			Metadata: "/var/lib/kafka/metadata", Data: tt.data, Disks: tt.disks, Cluster: "jQOgxHcCSdOgvu-ipSqdFQ", Node: kafka.ID(tt.node.Name),
		}, s, tt.name)
	}
}

func TestWithoutANodeOfKafkaNothingIsDone(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	for _, run := range []func(context.Context, *node.Machine) error{Bootstrap, Ready, Format} {
		require.ErrorContains(t, run(t.Context(), m), "read which node this is")
		nodetest.Is(t, m, "node-00000")
		require.ErrorContains(t, run(t.Context(), m), "this machine does not match any node with a role of Kafka")
		require.NoError(t, os.Remove(m.Root.At(paths.Identity)))
	}
	_, err := listener(&facts.Node{Name: "a"}, 9093)
	require.ErrorContains(t, err, "give it one under ips")
	address, err := listener(&facts.Node{Name: "a", IPs: []string{"fd77::1", "10.0.0.1"}}, 9093)
	require.NoError(t, err)
	require.Equal(t, "[fd77::1]:9093", address)
	_, _, err = accountOf("nobody-has-this-name")
	require.Error(t, err)
}
