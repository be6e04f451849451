package answers

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/pki"
	"spore/wire/nodeapi"
)

func TestAPushOfTheListCutsWhoeverHasTheCertificate(t *testing.T) {
	machines, c, tree := nodetest.BrokersWithKeys(t, "127.0.0.1")
	m := machines["kafka-1"]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer nodetest.Serve(t, m, func(ctx context.Context, m *node.Machine) error { return ServeOn(ctx, m, l) })()
	reader, other := operator(t, c, tree, pki.NodeReader), operator(t, c, tree, pki.NodeReader)
	for _, c := range []*nodeapi.Client{reader, other} {
		c.Addresses = func(string) ([]string, error) { return []string{l.Addr().String()}, nil }
	}
	health := nodeapi.Request{Path: nodeapi.HealthPath}
	_, err = reader.Read(t.Context(), "kafka-1", health, 1<<20)
	require.NoError(t, err)
	visit, err := reader.Visit("kafka-1")
	require.NoError(t, err)
	_, err = visit.Read(t.Context(), health, 1<<20)
	require.NoError(t, err)

	id, err := reader.Identity()
	require.NoError(t, err)
	nodetest.Withdraw(t, m, serial(t, id))
	_, err = reader.Read(t.Context(), "kafka-1", health, 1<<20)
	require.ErrorContains(t, err, "no answer: ", "the next call")
	_, err = visit.Read(t.Context(), health, 1<<20)
	require.Error(t, err, "the connection that was open")
	_, err = other.Read(t.Context(), "kafka-1", health, 1<<20)
	require.NoError(t, err)

	// Whoever follows a log sees the end of it.
	program := m.Root.At("/usr/bin/journalctl")
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o755))
	require.NoError(t, os.Symlink("/usr/bin/journalctl", program))
	journalctl := nodeapi.Request{Path: nodeapi.LogsPath, Query: url.Values{"unit": {"kafka.service"}, "follow": {"true"}}}
	body, err := other.Ask(t.Context(), "kafka-1", journalctl)
	require.NoError(t, err, "journalctl is of make deps")
	defer body.Close()
	id, err = other.Identity()
	require.NoError(t, err)
	nodetest.Withdraw(t, m, serial(t, id))
	begun := time.Now()
	_, _ = io.Copy(io.Discard, body)
	require.Less(t, time.Since(begun), 10*time.Second)
}
