// Package root is the tree of commands of the program spore, in the groups that its help shows.
package root

import (
	"github.com/spf13/cobra"

	"spore/builder/cmd/access"
	"spore/builder/cmd/adopt"
	"spore/builder/cmd/alerts"
	"spore/builder/cmd/approve"
	"spore/builder/cmd/boot"
	"spore/builder/cmd/build"
	"spore/builder/cmd/bundle"
	"spore/builder/cmd/cache"
	"spore/builder/cmd/capture"
	"spore/builder/cmd/ceph"
	"spore/builder/cmd/clean"
	"spore/builder/cmd/customize"
	"spore/builder/cmd/dashboard"
	"spore/builder/cmd/diff"
	"spore/builder/cmd/disks"
	"spore/builder/cmd/dmesg"
	"spore/builder/cmd/drain"
	"spore/builder/cmd/etcd"
	"spore/builder/cmd/explain"
	"spore/builder/cmd/explainfile"
	"spore/builder/cmd/flash"
	"spore/builder/cmd/health"
	"spore/builder/cmd/initialize"
	"spore/builder/cmd/inspect"
	"spore/builder/cmd/install"
	"spore/builder/cmd/kafka"
	"spore/builder/cmd/keys"
	"spore/builder/cmd/kubernetes"
	"spore/builder/cmd/locate"
	"spore/builder/cmd/lock"
	"spore/builder/cmd/logs"
	"spore/builder/cmd/metrics"
	"spore/builder/cmd/network"
	"spore/builder/cmd/pki"
	"spore/builder/cmd/power"
	"spore/builder/cmd/push"
	"spore/builder/cmd/quorum"
	"spore/builder/cmd/reset"
	"spore/builder/cmd/restart"
	"spore/builder/cmd/schema"
	"spore/builder/cmd/serve"
	"spore/builder/cmd/shell"
	"spore/builder/cmd/snapshots"
	"spore/builder/cmd/status"
	"spore/builder/cmd/support"
	"spore/builder/cmd/top"
	"spore/builder/cmd/trail"
	"spore/builder/cmd/validate"
)

// Version is the version of spore and of the images that it builds.
const Version = "0.1.0"

// Command returns the program.
func Command() *cobra.Command {
	// Help shows the commands of a group in the order in which they are used.
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:           "spore",
		Short:         "Build one immutable image for a whole cluster from one folder of YAML",
		Version:       Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"configure", "Configure a cluster:", []*cobra.Command{
			initialize.Command(), validate.Command(), explain.Command(), schema.Command(),
		}},
		{"build", "Build and examine images:", []*cobra.Command{
			build.Command(Version), lock.Command(Version), customize.Command(), inspect.Command(), explainfile.Command(),
			diff.Command(), cache.Command(),
		}},
		{"bring", "Bring images and configurations to machines:", []*cobra.Command{
			boot.Command(), flash.Command(), serve.Command(), approve.Command(), push.Command(),
		}},
		{"run", "Look after a running cluster:", []*cobra.Command{
			status.Command(), health.Command(), dashboard.Command(), alerts.Command(), logs.Command(), metrics.Command(), dmesg.Command(),
			top.Command(), disks.Command(), network.Command(), capture.Command(), support.Command(Version), trail.Command(),
			bundle.Command(), restart.Command(), snapshots.Command(), drain.Command(), drain.UncordonCommand(), etcd.Command(),
			ceph.Command(), kafka.Command(), kubernetes.Command(), quorum.Command(), locate.Command(), power.Reboot(), power.Shutdown(),
			reset.Command(), adopt.Command(), install.Command(), clean.Command(), shell.Command(),
		}},
		{"keys", "Manage keys, certificates and rights:", []*cobra.Command{
			pki.Command(), keys.Command(), access.Command(), pki.KubeconfigCommand(),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(serve.Network())
	return root
}
