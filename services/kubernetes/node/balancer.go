package node

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

// balancerAddress is where the balancer listens on every node; the port is kubernetes.PortBalancer.
const balancerAddress = "127.0.0.1:6444"

// holdClients is longer than the ten seconds in which clients of Go give up a TLS handshake (net/http, TLSHandshakeTimeout).
const holdClients = 12 * time.Second

// balancer renders the configuration of haproxy(1): TCP from the node's own programs to a master whose API server says that
// it is ready. A master prefers its own.
func balancer(in rendering.Input) (map[string]rendering.File, error) {
	masters, err := rendering.Members(in, "control-plane")
	if err != nil {
		return nil, err
	}
	authorities, err := balancerAuthorities(in)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	milliseconds := func(d time.Duration) int64 { return client.Slow(in, d).Milliseconds() }
	line("# Rendered by spore-agent from cluster.yaml; made again at each start.")
	line("global")
	line("  maxconn 4000")
	line("  nbthread 1") // a few long connections; each thread has pools of its own
	line("  log stdout format raw daemon notice")
	line("defaults")
	line("  mode tcp")
	line("  log global")
	line("  timeout connect %dms", milliseconds(5*time.Second))
	line("  timeout check %dms", milliseconds(5*time.Second))
	// Watches speak at least every few minutes; a shell in a container may be silent for long.
	line("  timeout client 4h")
	line("  timeout server 4h")
	line("frontend kube-apiserver")
	line("  bind %s", balancerAddress)
	// While no master is ready, clients wait in the balancer until their own bound for TLS. Closed at once, as a server that is
	// gone is by default, each open request of each of them comes again every second (k8s.io/client-go, rest/with_retry.go),
	// hundreds of them, and takes the processor from the API server that is to start.
	line("  tcp-request inspect-delay %dms", holdClients.Milliseconds())
	line("  tcp-request content accept if { nbsrv(kube-apiservers) gt 0 }")
	line("  tcp-request content reject if WAIT_END")
	line("  default_backend kube-apiservers")
	line("backend kube-apiservers")
	line("  balance leastconn")
	// A client is not held by a master that has just lost power: what does not connect goes to another one at once.
	line("  option redispatch 1")
	line("  option httpchk GET /readyz")
	line("  http-check expect status 200")
	line("  option allbackups")
	// Who hangs on a master that is gone shall go to another one. Where there is none, closing all connections to a master
	// that is late with its answer has all clients come again at once, which makes it later.
	down := " on-marked-down shutdown-sessions"
	if len(masters) == 1 {
		down = ""
	}
	line("  default-server check check-ssl verify required ca-file %s inter %dms downinter %dms fall 3 rise 1%s",
		filepath.Join(in.Dir, "authorities.pem"), milliseconds(2*time.Second), milliseconds(time.Second), down)
	for _, m := range masters {
		other := ""
		if slices.Contains(in.Node.Roles, "control-plane") && m.Name != in.Node.Name {
			other = " backup"
		}
		line("  server %s %s verifyhost %s%s", m.Name, netip.AddrPortFrom(m.Addr, kubernetes.PortAPI), m.Name, other)
	}
	return map[string]rendering.File{"haproxy.cfg": {Data: b.Bytes(), Mode: 0o644}, "authorities.pem": {Data: authorities, Mode: 0o644}}, nil
}

// balancerAuthorities are the authority of the API servers and the root above it: OpenSSL, other than Go, takes no authority
// that is not its own issuer. The balancer only asks who is ready; those who speak through it verify the one authority.
func balancerAuthorities(in rendering.Input) ([]byte, error) {
	var out []byte
	for _, name := range []string{"kubernetes-server.crt", "root.crt"} {
		data, err := in.Authority(name)
		if err != nil {
			return nil, fmt.Errorf("authority of the API servers: %w", err)
		}
		out = append(out, data...)
	}
	return out, nil
}
