// Command spore-metrics is the part of the agent that measures the node and its services for those who scrape the
// node's API. docs/metrics.md tells what for; package serve says why it is a program of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"spore/agent/metrics/serve"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "spore-metrics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	l, err := listener()
	if err != nil {
		return err
	}
	say := func(s string) { fmt.Fprintln(os.Stderr, "spore-metrics:", s) }
	return serve.New("/", time.Now, say).Serve(ctx, l, 0)
}

// listener is the socket that systemd hands over.
func listener() (net.Listener, error) {
	all, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("take the socket of systemd: %w", err)
	}
	if len(all) != 1 || all[0] == nil {
		return nil, errors.New("systemd handed over no socket; it is started by spore-metrics.socket")
	}
	return all[0], nil
}
