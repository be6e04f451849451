// Command spore-dashboard serves pages about the whole cluster to people with a certificate. docs/dashboard.md tells
// what for.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/clusterpart"
	"spore/agent/dashboard/serve"
	"spore/agent/paths"
	"spore/services/dashboard/serving"
	"spore/storage/atomicfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "spore-dashboard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("it takes one argument, the file that spore-agent renders; it has %d", len(args))
	}
	data, err := atomicfile.ReadLimited(args[0], serving.MaxSize)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	c, err := serving.Parse(data)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	say := func(s string) { fmt.Fprintln(os.Stderr, s) }
	root := paths.Root("/")
	return serve.Run(ctx, l, serve.Options{
		Config: c, Root: root, Part: clusterpart.Mounted(root), Now: time.Now, Say: say,
		Ready: func() {
			if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
				say(err.Error())
			}
		},
	})
}
