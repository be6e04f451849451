package node

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/formation"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/kubernetes/etcd/origin"
	"spore/services/rendering"
)

const (
	etcdState = origin.Home
	// etcdSocket is where the API server of this master finds etcd: without TLS, in a folder into which the unit lets
	// nobody else. The API server has a connection for each kind of object, and makes all of them at its start and
	// whenever either of the two was late; with TLS each one costs both a handshake.
	etcdSocket = "unix:///run/etcd/client.sock"
	// etcdHeartbeat and etcdElection are etcd's own defaults; a follower calls an election when it hears nothing for the
	// second.
	etcdHeartbeat = 100 * time.Millisecond
	etcdElection  = time.Second
	// etcdMaxElection is the longest that etcd takes (server/embed, maxElectionMs).
	etcdMaxElection = 50 * time.Second
	// etcdQuota is the size of the database at which etcd takes no more writes: its own default, 2 GiB, said here since
	// /var has to hold it twice when it is defragmented.
	etcdQuota = 2 << 30
	// etcdProgress is how often a watcher hears that it is up to date; kube-apiserver's watch cache asks for it.
	etcdProgress = 5 * time.Second
)

// loopback is where a master's programs find each other.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// strongSuites are the cipher suites of TLS 1.2 that the CIS benchmark allows; those of TLS 1.3 cannot be chosen.
var strongSuites = []string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// etcd renders etcd's configuration file. Every master is a member under its node's name; clients are the API server
// of this node by a socket, and by TCP those of the authority etcd-client.
func etcd(in rendering.Input) (map[string]rendering.File, error) {
	own, err := rendering.Address(in)
	if err != nil {
		return nil, err
	}
	o, err := etcdOrigin(in, own)
	if err != nil {
		return nil, err
	}
	config, err := rendering.JSON(map[string]any{
		"name":     in.Node.Name,
		"data-dir": etcdState,

		"listen-peer-urls": httpsURL(own, kubernetes.PortEtcdPeer),
		"listen-client-urls": strings.Join([]string{
			httpsURL(own, kubernetes.PortEtcdClient), httpsURL(loopback, kubernetes.PortEtcdClient), etcdSocket,
		}, ","),
		"initial-advertise-peer-urls": httpsURL(own, kubernetes.PortEtcdPeer),
		"advertise-client-urls":       httpsURL(own, kubernetes.PortEtcdClient),
		// Read only while there is no data.
		"initial-cluster":       o.InitialCluster(),
		"initial-cluster-state": etcdStates[o.Kind],
		"initial-cluster-token": o.Token,
		"strict-reconfig-check": true,

		"client-transport-security": etcdTLS(in, "etcd-server", "etcd-client.crt"),
		"peer-transport-security":   etcdTLS(in, "etcd-peer", "etcd.crt"),
		"cipher-suites":             strongSuites,
		// It would be a client of etcd itself, with the certificate of a server.
		"enable-grpc-gateway": false,

		"heartbeat-interval":             client.Slow(in, etcdHeartbeat).Milliseconds(),
		"election-timeout":               min(client.Slow(in, etcdElection), etcdMaxElection).Milliseconds(),
		"quota-backend-bytes":            etcdQuota,
		"watch-progress-notify-interval": client.Slow(in, etcdProgress).Nanoseconds(),
		// Compares the hashes of the members before it serves: data that differ are never mixed.
		"feature-gates": "InitialCorruptCheck=true",
		"log-level":     "warn",
		// etcd's own bounds; on a slow machine every request would be beyond them, and writing that down makes it slower.
		"warning-apply-duration":         client.Slow(in, 100*time.Millisecond).Nanoseconds(),
		"warning-unary-request-duration": client.Slow(in, 300*time.Millisecond).Nanoseconds(),
		"logger":                         "zap",
		"log-outputs":                    []string{"stderr"},
	}, 0o644)
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{"config.json": config}, nil
}

// etcdStates is what etcd calls it.
var etcdStates = map[formation.Kind]string{formation.Form: "new", formation.Join: "existing"}

// etcdOrigin is how etcd's data begins, or began. Data of which nobody knows how it began is there: an etcd without any would
// then form no quorum, and find none.
func etcdOrigin(in rendering.Input, own netip.Addr) (*origin.Origin, error) {
	if !slices.Contains(in.Cluster.Members["control-plane"], in.Node.Name) {
		return nil, errors.New("this node has not the role control-plane")
	}
	var o *origin.Origin
	if in.State != nil {
		state, err := in.State("etcd")
		if err != nil {
			return nil, err
		}
		o, _ = state.(*origin.Origin)
	}
	if o == nil {
		o = &origin.Origin{Kind: formation.Join, Token: in.Cluster.ID, Members: map[string][]string{in.Node.Name: {httpsURL(own, kubernetes.PortEtcdPeer)}}}
	}
	if len(o.Members) == 0 {
		return nil, errors.New("the other members have not let this one in yet")
	}
	return o, nil
}

// EtcdPeer is where other members of etcd find a master: its first address by the configuration, or the first of the given
// ones, those that the node itself has.
func EtcdPeer(n *facts.Node, addresses []netip.Addr) (string, error) {
	own, err := rendering.Address(rendering.Input{Node: n, Addresses: addresses})
	if err != nil {
		return "", err
	}
	return httpsURL(own, kubernetes.PortEtcdPeer), nil
}

func etcdTLS(in rendering.Input, leaf, clients string) map[string]any {
	return map[string]any{
		"cert-file": in.SecretPath(leaf + "-certificate"), "key-file": in.SecretPath(leaf + "-key"),
		"client-cert-auth": true, "trusted-ca-file": pkiFile(clients),
	}
}

func httpsURL(addr netip.Addr, port int) string {
	return "https://" + net.JoinHostPort(addr.String(), strconv.Itoa(port))
}
