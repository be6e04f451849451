// Program spore builds images and looks after them.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/root"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	os.Exit(exit.Run(ctx, root.Command()))
}
