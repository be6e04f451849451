// Program spore builds images and looks after them.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"spore/builder/cmd/access"
	"spore/builder/cmd/approve"
	"spore/builder/cmd/boot"
	"spore/builder/cmd/build"
	"spore/builder/cmd/cache"
	"spore/builder/cmd/customize"
	"spore/builder/cmd/diff"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/explain"
	"spore/builder/cmd/explainfile"
	"spore/builder/cmd/flash"
	"spore/builder/cmd/health"
	"spore/builder/cmd/initialize"
	"spore/builder/cmd/inspect"
	"spore/builder/cmd/keys"
	"spore/builder/cmd/lock"
	"spore/builder/cmd/logs"
	"spore/builder/cmd/pki"
	"spore/builder/cmd/push"
	"spore/builder/cmd/serve"
	"spore/builder/cmd/snapshots"
	"spore/builder/cmd/status"
	"spore/builder/cmd/validate"
)

// version is that of spore and of the images that it builds.
const version = "0.1.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "spore",
		Short:         "Build one immutable image for a whole cluster from one folder of YAML",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		initialize.Command(), validate.Command(), explain.Command(),
		build.Command(version), lock.Command(version), customize.Command(), push.Command(), inspect.Command(), explainfile.Command(), diff.Command(), boot.Command(), flash.Command(), serve.Command(), serve.Network(), approve.Command(), pki.Command(), pki.KubeconfigCommand(), keys.Command(),
		cache.Command(),
		access.Command(), status.Command(), logs.Command(), health.Command(), snapshots.Command(),
	)
	os.Exit(exit.Run(ctx, root))
}
