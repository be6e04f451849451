// Command spore-logs-store takes what nodes log for a store of logs, and has VictoriaLogs and other receivers have it.
// docs/logs.md tells what for.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/logs/serve"
	"spore/services/logs"
	"spore/services/logs/store"
	"spore/storage/atomicfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "spore-logs-store:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("it takes one argument, the file that spore-agent renders; it has %d", len(args))
	}
	data, err := atomicfile.ReadLimited(args[0], store.MaxSize)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	c, err := store.Parse(data)
	if err != nil {
		return err
	}
	say := func(s string) { fmt.Fprintln(os.Stderr, s) }
	return serve.Run(ctx, serve.Options{
		Config: c, Socket: logs.TakerSocket, Metrics: logs.TakerMetrics,
		Data: c.Data, Say: say, Now: time.Now,
		Ready: func() {
			if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
				say(err.Error())
			}
		},
	})
}
