// Package dashboard is the command `spore dashboard`: a page about the running cluster on the operator's machine.
package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/alerts"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/builder/entrance"
	"spore/dashboard"
	"spore/dashboard/live"
	"spore/services/metrics"
	"spore/wire/nodeapi"
)

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
	a := live.Asker(c, cert.NotAfter)
	if a.Alerts != nil && acts(cert) {
		a.Silence = func(ctx context.Context, w dashboard.Wish) (string, error) { return alerts.Silence(ctx, c, w) }
		a.Unsilence = func(ctx context.Context, id string) (string, error) { return alerts.Unsilence(ctx, c, id) }
	}
	local(&a, dir, out)
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
