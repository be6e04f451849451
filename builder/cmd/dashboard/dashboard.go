// Package dashboard is the command `spore dashboard`: a page about the running cluster on the operator's machine.
package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/alerts"
	"spore/builder/cmd/disks"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/logs"
	query "spore/builder/cmd/metrics"
	"spore/builder/cmd/network"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/trail"
	"spore/builder/cmd/verb"
	"spore/builder/dashboard"
	"spore/builder/entrance"
	"spore/builder/rotate"
	"spore/cluster/facts"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// stay is for how long a connection to a node is kept on which nothing is asked: longer than the pause between two
// questions, and shorter than nodes keep it.
const stay = 20 * time.Second

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var listen, out string
	cmd := &cobra.Command{
		Use:   "dashboard [DIR]",
		Short: "Serve a page about the running cluster on this machine",
		Long: `Dashboard asks the nodes of the cluster in DIR (configs when left out) every
5 to 7 seconds while somebody looks, and serves a page about them on this
machine, until you press Ctrl-C: what is wrong, since when, and what to do; then
each node. Alerts are shown where a node has the role ` + metrics.AlertsRole + `, and each
service where a node has its role.

It prints the address. Whoever has the address sees the page. Where the
certificate is an operator's, or is made by the operator's folder, alerts can be
silenced there; nothing else can be changed.`,
		Example: "  spore dashboard\n  spore dashboard configs --access reader.access",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			f.Least = nodeapi.Reader // Who has no more sees the page, and silences nothing.
			c, err := f.Open(cmd, dir, nodeapi.Operator)
			if err != nil {
				return err
			}
			return serve(cmd, c, dir, listen, out)
		},
	}
	f.Register(cmd, true)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback address and port; port 0 is any that is free")
	cmd.Flags().StringVar(&out, "out", "out", "folder of a spore serve on this machine, of which the page shows the machines that wait")
	return cmd
}

func serve(cmd *cobra.Command, c *reach.Cluster, dir, listen, out string) error {
	at, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil || !at.IP.IsLoopback() {
		return exit.Usage(fmt.Errorf("the address %q is not one of this machine's loopback; write it as 127.0.0.1:8080", listen))
	}
	cert, err := certificate(c)
	if err != nil {
		return err
	}
	a := dashboard.Asker{Node: (&visitor{c: c, visits: map[string]*nodeapi.Visit{}}).ask, Timeout: c.Timeout, Ends: cert.NotAfter}
	a.Logs = func(ctx context.Context, q logs.Question) (logs.Found, error) {
		return logs.Search(ctx, c, q, time.Now())
	}
	a.Follow = func(ctx context.Context, node string, lines int, each func(logs.Line) error) error {
		return logs.Follow(ctx, c, node, lines, each)
	}
	a.Trail = func(ctx context.Context, q trail.Question) (trail.Answer, error) {
		return trail.Ask(ctx, c, q, time.Now())
	}
	a.Renewals = func(ctx context.Context) []reach.Answer[nodeapi.Renewal] {
		return reach.Each(ctx, c, func(ctx context.Context, n facts.Node) (nodeapi.Renewal, error) {
			return rotate.Nodes{Client: c.Client}.Ask(ctx, n.Name)
		})
	}
	a.Devices = func(ctx context.Context, node string) (string, string, error) { return devices(ctx, c, node) }
	if len(c.Facts.Members[metrics.Role]) > 0 {
		a.Query = func(ctx context.Context, o nodeapi.Order) ([]machine.Series, string, error) {
			return query.Query(ctx, c, o)
		}
	}
	if len(c.Facts.Members[metrics.AlertsRole]) > 0 {
		a.Alerts = func(ctx context.Context) ([]machine.Alert, error) { return alerts.Now(ctx, c) }
		if acts(cert) {
			a.Silence = func(ctx context.Context, w dashboard.Wish) (string, error) { return alerts.Silence(ctx, c, w) }
			a.Unsilence = func(ctx context.Context, id string) (string, error) { return alerts.Unsilence(ctx, c, id) }
		}
	}
	services(&a, c, dir, out)
	watcher := dashboard.NewWatcher(c.Facts, c.Nodes, a, time.Now)
	pages, err := dashboard.NewServer(dashboard.Options{Cluster: c.Facts.Name, Dir: dir, Now: time.Now, Token: rand.Text()}, watcher)
	if err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return fmt.Errorf("open a port on this machine: %w", err)
	}
	host := l.Addr().String()
	door, path, err := entrance.New(entrance.Options{
		Host: host, Name: "spore-dashboard", Command: "spore dashboard", First: "/", Random: rand.Reader,
		Methods: []string{http.MethodGet, http.MethodPost},
	}, pages)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	can := "sees it"
	if a.Silence != nil {
		can += ", and can silence alerts"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The page of %s is here until you press Ctrl-C. Whoever has the address %s:\n", c.Facts.Name, can)
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s%s\n", host, path)
	ctx, stop := context.WithCancel(cmd.Context())
	var asking sync.WaitGroup
	asking.Go(func() { watcher.Run(ctx) })
	defer asking.Wait()
	defer stop()
	return entrance.Serve(ctx, l, door)
}

// maxDevices bounds what a node says of its disks, and of its network, in bytes.
const maxDevices = 4 << 20

// devices are the disks and the network of a node, as spore disks and spore net print them.
func devices(ctx context.Context, c *reach.Cluster, node string) (onDisks, onNetwork string, err error) {
	var texts [2]strings.Builder
	for i, of := range []struct {
		verb string
		show func(io.Writer, string, []json.RawMessage) error
	}{{"disks", disks.Show}, {"net", network.Show}} {
		results, err := verb.Results(ctx, c, node, verb.Row(of.verb), nodeapi.Order{}, maxDevices)
		if err == nil {
			err = of.show(&texts[i], node, results)
		}
		if err != nil {
			return "", "", err
		}
	}
	return texts[0].String(), texts[1].String(), nil
}

// certificate is what nodes are shown.
func certificate(c *reach.Cluster) (*x509.Certificate, error) {
	id, err := c.Client.Identity()
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(id.Certificate)
	if block == nil {
		return nil, errors.New("the certificate that nodes are shown is no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate that nodes are shown is malformed: %w", err)
	}
	return cert, nil
}

// acts tells whether a certificate may silence alerts.
func acts(cert *x509.Certificate) bool {
	return slices.ContainsFunc(cert.Subject.Organization, func(role string) bool { return nodeapi.Role(role).Covers(nodeapi.Operator) })
}

// visitor asks each node on one connection.
type visitor struct {
	c      *reach.Cluster
	mu     sync.Mutex
	visits map[string]*nodeapi.Visit
}

func (v *visitor) ask(ctx context.Context, name string) (nodeapi.Status, nodeapi.Health, error) {
	visit, err := v.visit(name)
	if err != nil {
		return nodeapi.Status{}, nodeapi.Health{}, err
	}
	line, err := visit.Read(ctx, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
	if err != nil {
		return nodeapi.Status{}, nodeapi.Health{}, err
	}
	s, err := nodeapi.ParseStatus(line, v.c.Facts.Name, name)
	if err != nil {
		return nodeapi.Status{}, nodeapi.Health{}, err
	}
	data, err := visit.Read(ctx, nodeapi.Request{Path: nodeapi.HealthPath}, nodeapi.MaxHealth)
	if err != nil {
		return nodeapi.Status{}, nodeapi.Health{}, err
	}
	h, err := nodeapi.ParseHealth(data, v.c.Facts.ID, name)
	return s, h, err
}

func (v *visitor) visit(name string) (*nodeapi.Visit, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if visit := v.visits[name]; visit != nil {
		return visit, nil
	}
	visit, err := v.c.Client.Stay(name, stay)
	if err == nil {
		v.visits[name] = visit
	}
	return visit, err
}
