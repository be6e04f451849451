// Command spore-alerts is the bridge between Alertmanager and what it cannot reach: MQTT, syslog, and whoever misses
// the heartbeat. docs/alerting.md tells what for.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"spore/agent/alerts/serve"
	"spore/services/metrics/bridge"
	"spore/storage/atomicfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "spore-alerts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("it takes one argument, the file that spore-agent renders; it has %d", len(args))
	}
	data, err := atomicfile.ReadLimited(args[0], bridge.MaxSize)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	c, err := bridge.Parse(data)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	say := func(s string) { fmt.Fprintln(os.Stderr, "spore-alerts:", s) }
	return serve.New(c, time.Now, say).Serve(ctx, l)
}
