package render

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	etcdState      = "/var/lib/etcd"
	etcdClientPort = 2379
	etcdPeerPort   = 2380
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

// etcd renders etcd's configuration file. Every master is a member under its node's name; clients are those of the
// authority etcd-client.
func etcd(in Input) (map[string]File, error) {
	own, err := nodeAddress(in)
	if err != nil {
		return nil, err
	}
	masters, err := membersOf(in, "control-plane")
	if err != nil {
		return nil, err
	}
	var cluster []string
	found := false
	for _, m := range masters {
		cluster = append(cluster, m.name+"="+httpsURL(m.addr, etcdPeerPort))
		found = found || m.name == in.Node.Name
	}
	if !found {
		return nil, errors.New("this node has not the role control-plane")
	}
	config, err := jsonFile(map[string]any{
		"name":     in.Node.Name,
		"data-dir": etcdState,

		"listen-peer-urls":            httpsURL(own, etcdPeerPort),
		"listen-client-urls":          httpsURL(own, etcdClientPort) + "," + httpsURL(loopback, etcdClientPort),
		"initial-advertise-peer-urls": httpsURL(own, etcdPeerPort),
		"advertise-client-urls":       httpsURL(own, etcdClientPort),
		"initial-cluster":             strings.Join(cluster, ","),
		"initial-cluster-state":       "new",
		"initial-cluster-token":       in.Cluster.ID,
		"strict-reconfig-check":       true,

		"client-transport-security": etcdTLS(in, "etcd-server", "etcd-client.crt"),
		"peer-transport-security":   etcdTLS(in, "etcd-peer", "etcd.crt"),
		"cipher-suites":             strongSuites,
		// It would be a client of etcd itself, with the certificate of a server.
		"enable-grpc-gateway": false,

		"heartbeat-interval":             slow(in, etcdHeartbeat).Milliseconds(),
		"election-timeout":               min(slow(in, etcdElection), etcdMaxElection).Milliseconds(),
		"quota-backend-bytes":            etcdQuota,
		"watch-progress-notify-interval": slow(in, etcdProgress).Nanoseconds(),
		// Compares the hashes of the members before it serves: data that differ are never mixed.
		"feature-gates": "InitialCorruptCheck=true",
		"log-level":     "warn",
		// etcd's own bounds; on a slow machine every request would be beyond them, and writing that down makes it slower.
		"warning-apply-duration":         slow(in, 100*time.Millisecond).Nanoseconds(),
		"warning-unary-request-duration": slow(in, 300*time.Millisecond).Nanoseconds(),
		"logger":                         "zap",
		"log-outputs":                    []string{"stderr"},
	}, 0o644)
	if err != nil {
		return nil, err
	}
	return map[string]File{"config.json": config}, nil
}

func etcdTLS(in Input, leaf, clients string) map[string]any {
	return map[string]any{
		"cert-file": in.SecretPath(leaf + "-certificate"), "key-file": in.SecretPath(leaf + "-key"),
		"client-cert-auth": true, "trusted-ca-file": pkiFile(clients),
	}
}

func httpsURL(addr netip.Addr, port int) string {
	return "https://" + net.JoinHostPort(addr.String(), strconv.Itoa(port))
}
