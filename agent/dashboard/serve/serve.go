// Package serve is spore-dashboard: it asks the nodes of the cluster by a certificate that may only look, and serves
// pages about them to people with a certificate (package gate).
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"spore/agent/clusterpart"
	"spore/agent/dashboard/gate"
	"spore/agent/paths"
	"spore/agent/withdrawn"
	"spore/cluster/facts"
	"spore/dashboard"
	"spore/dashboard/live"
	"spore/fleet"
	"spore/services/dashboard/serving"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// timeout bounds what is asked of one node.
const timeout = 10 * time.Second

// maxPEM bounds a file of a certificate, or of a key, in bytes.
const maxPEM = 64 << 10

// Options say what is served.
type Options struct {
	Config serving.Config
	// Root is where the file system of the node begins, and Part its cluster part.
	Root paths.Root
	Part clusterpart.Part
	// Dial connects to a node; that of net.Dialer when it is nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Now  func() time.Time
	Say  func(string)
	// Ready is called when browsers can ask.
	Ready func()
}

// Run serves the pages at a listener, which it closes, until ctx is over.
func Run(ctx context.Context, l net.Listener, o Options) error {
	c, err := o.cluster()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	asker := live.Asker(c, time.Time{})
	asker.From = o.Config.Node
	watcher := dashboard.NewWatcher(c.Facts, c.Nodes, asker, o.Now)
	pages, err := dashboard.NewServer(dashboard.Options{Cluster: c.Facts.Name, Dir: "configs", Now: o.Now}, watcher)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { watcher.Run(ctx) })
	defer asking.Wait()
	defer stop()
	o.Ready()
	return gate.Serve(ctx, l, gate.Options{
		Cluster: c.Facts.Name, Identity: o.identity(o.Config.Server), Withdrawn: withdrawn.Of(o.Part, o.Say).Now, Now: o.Now,
		Behind: func() bool { _, err := os.Stat(o.Root.At(paths.ClockWrong)); return err == nil }, Say: o.Say,
	}, pages)
}

// cluster is all nodes as they are asked.
func (o Options) cluster() (*fleet.Cluster, error) {
	c, err := o.Part.Cluster()
	if err != nil {
		return nil, err
	}
	claims, err := o.Part.Claims()
	if err != nil {
		return nil, err
	}
	out := &fleet.Cluster{Facts: *c, Timeout: timeout}
	at := map[string][]string{}
	for _, claim := range claims {
		n, err := o.Part.Node(claim.Node)
		if err != nil {
			return nil, err
		}
		if at[n.Name] = n.IPs; len(n.IPs) == 0 {
			at[n.Name] = []string{n.FQDN}
		}
		out.Nodes = append(out.Nodes, *n)
	}
	slices.SortFunc(out.Nodes, func(a, b facts.Node) int { return strings.Compare(a.Name, b.Name) })
	out.Client = nodeapi.Client{
		Identity: o.identity(o.Config.Reader), Addresses: func(node string) ([]string, error) { return at[node], nil }, Dial: o.Dial,
	}
	return out, nil
}

// identity reads a certificate as it is now, and whom the node trusts.
func (o Options) identity(p serving.Pair) func() (nodeapi.Identity, error) {
	return func() (id nodeapi.Identity, err error) {
		// Both files of one time: their folder may become another one between the two (paths.Live).
		dir, err := filepath.EvalSymlinks(filepath.Dir(p.Certificate))
		if err != nil {
			return id, fmt.Errorf("find the certificate of the node: %w", err)
		}
		if id.Certificate, err = atomicfile.ReadLimited(filepath.Join(dir, filepath.Base(p.Certificate)), maxPEM); err != nil {
			return id, fmt.Errorf("read the certificate of the node: %w", err)
		}
		if id.Key, err = atomicfile.ReadLimited(filepath.Join(dir, filepath.Base(p.Key)), maxPEM); err != nil {
			return id, fmt.Errorf("read the key of the node: %w", err)
		}
		id.Authorities, err = o.Part.Public("agent.crt")
		return id, err
	}
}
