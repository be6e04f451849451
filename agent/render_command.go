package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/agent/atomicfile"
	"spore/agent/nic"
	"spore/agent/render"
	"spore/agent/secrets"
	"spore/agent/wait"
	"spore/cluster/facts"
)

// maxSecret bounds one secret in bytes.
const maxSecret = 1 << 20

// renderCommand writes a program's configuration into its unit's runtime directory, as the program's user.
func renderCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Sprintf("usage: spore-agent render NAME, one of %v", render.Names())}
	}
	dir, credentials := os.Getenv("RUNTIME_DIRECTORY"), os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return errors.New("RUNTIME_DIRECTORY is not set: render is for ExecStartPre= of a unit with RuntimeDirectory=")
	}
	_, c, n, err := m.node()
	if err != nil {
		return err
	}
	if n == nil {
		return errors.New("this machine is no node, so there is nothing to render")
	}
	hosts, err := m.part.Hosts()
	if err != nil {
		return err
	}
	addresses, err := awaitAddresses(ctx, m, n)
	if err != nil {
		return err
	}
	secretPath := func(ref string) string { return filepath.Join(credentials, "secret_"+ref) }
	files, err := render.Render(args[0], render.Input{
		Cluster: c, Node: n, Hosts: bytes.NewReader(hosts), Addresses: addresses, Dir: dir, SecretPath: secretPath,
		Secret: func(ref string) ([]byte, error) {
			if credentials == "" || !secrets.ValidRef(ref) {
				return nil, fmt.Errorf("the secret %q was not given to this unit", ref)
			}
			return atomicfile.ReadLimited(secretPath(ref), maxSecret)
		},
	})
	if err != nil {
		return err
	}
	return render.Write(dir, files)
}

// ownAddressBound is the longest wait for the node's own addresses: networkd needs a moment after it was told.
const ownAddressBound = 20 * time.Second

// awaitAddresses returns the addresses that the machine has, once the node's own are among them. One that another machine
// has, or that does not come within the bound, is gone without.
func awaitAddresses(ctx context.Context, m *machine, n *facts.Node) ([]netip.Addr, error) {
	withheld := map[netip.Addr]bool{}
	for _, u := range m.conflicts() {
		withheld[u.IP] = true
	}
	var have []netip.Addr
	var failed error
	err := wait.Until(ctx, wait.Condition{
		For: "the node's addresses " + strings.Join(n.IPs, ", "), Bound: ownAddressBound, Every: 200 * time.Millisecond, Say: m.say,
		Met: func() bool {
			have, failed = nic.Addresses()
			if failed != nil || len(have) == 0 {
				return failed != nil
			}
			for _, text := range n.IPs {
				if ip, err := netip.ParseAddr(text); err == nil && !withheld[ip] && !slices.Contains(have, ip) {
					return false
				}
			}
			return true
		},
	})
	if failed != nil {
		return nil, failed
	}
	if errors.Is(err, wait.ErrBound) {
		m.say(err.Error() + "; going on with what there is")
		err = nil
	}
	return have, err
}
