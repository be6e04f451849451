package network

import (
	"io"
	"net/netip"
	"os"
	"strings"

	"spore/agent/paths"
)

// Bounds of resolv.conf: bytes, and entries of each kind.
const (
	maxResolver = 64 << 10
	maxServers  = 16
)

// Resolver reads the DNS servers and the domains that are tried, in their order (resolv.conf(5)).
func Resolver(root paths.Root) (servers, search []string) {
	f, err := os.Open(root.At("/etc/resolv.conf"))
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxResolver))
	if err != nil {
		return nil, nil
	}
	return parseResolver(string(data))
}

func parseResolver(text string) (servers, search []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if _, err := netip.ParseAddr(f[1]); err == nil && len(servers) < maxServers {
				servers = append(servers, f[1])
			}
		case "search", "domain": // The last one counts.
			search = f[1:min(len(f), 1+maxServers)]
		}
	}
	return servers, search
}
