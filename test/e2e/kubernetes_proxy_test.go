//go:build e2e

package e2e

import (
	"context"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	plan "spore/builder/rehearsal"
	"spore/builder/rehearsal/door"
	"spore/builder/vm/lan"
)

// isReachedByTheProxy opens the proxy that spore boot has, and does with it what docs/rehearse.md says of kubectl: the server of
// the kubeconfig is that of the real cluster. That spore boot opens it is shown with the shipped brokers.
func (l *lab) isReachedByTheProxy(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir := t.TempDir()
	require.NoError(t, lan.Join(ctx, dir))
	l.observer.join(t, dir)
	address, mac, err := plan.Station(&l.shared, l.nodes)
	require.NoError(t, err)
	names := plan.NewNames(&l.shared, l.nodes)
	nobody := func(string) []netip.Addr { return nil } // has an address by DHCP alone
	at, err := door.Open(ctx, door.Config{Dir: dir, Address: address, MAC: mac, Moved: func(string) {}, Lookup: func(host string) []netip.Addr {
		return names.Lookup(host, nobody)
	}})
	require.NoError(t, err)

	other := *l
	other.config = filepath.Join(t.TempDir(), "rehearsal.kubeconfig")
	l.spore("kubeconfig", filepath.Join(l.dir, "plant"), "-o", other.config)
	other.must("config", "set-cluster", "plant", "--proxy-url", "socks5://"+at)
	server := other.must("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	require.NotContains(t, server, "127.0.0.1")
	require.Equal(t, masterName+" "+workerName, strings.TrimSpace(other.must("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")), server)
}
