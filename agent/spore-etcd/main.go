// Command spore-etcd is the part of the agent that speaks to etcd: who its members are, what is kept of it, and what is
// held by a lease in it. Only images with Kubernetes have it. docs/formation.md and docs/high-availability.md tell what
// for.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"spore/agent/command"
	"spore/services/kubernetes/etcd/backup"
	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/etcd/membership"
	"spore/services/kubernetes/vip/endpoint"
)

// table is what there is, and what it takes. People call it as spore-agent etcd.
func table(m *master.Machine) command.Table {
	return command.Table{Program: "spore-agent etcd", Example: "spore-agent etcd show", Commands: []command.Command{
		{
			Name:  "endpoint",
			About: "hold the virtual address of the Kubernetes API when it is this master's turn, until stopped",
			Read:  plain(m, endpoint.Hold),
		},
		{
			Name:    "restore",
			About:   "make a new etcd of this master alone from a snapshot, when the quorum is lost",
			Example: "spore-agent etcd restore --latest --yes",
			Read:    readRestore(func(ctx context.Context, o backup.Options) error { return backup.Restore(ctx, m, os.Stdout, o) }),
		},
		{
			Name:    "remove",
			About:   "take a member out of etcd that is lost for good",
			Example: "spore-agent etcd remove master-3 --yes",
			Read: func(a *command.Args) command.Run {
				var o membership.RemoveOptions
				yes := a.Bool("yes", "do it, and not only say what would be done")
				words := a.Words("NAME", 1, 1)
				return func(ctx context.Context) error {
					o.Name, o.Yes = (*words)[0], *yes
					return membership.Remove(ctx, m, os.Stdout, o)
				}
			},
		},
		{
			Name:    "forget",
			About:   "give up what this master has of an etcd that was restored elsewhere, and join the others",
			Example: "spore-agent etcd forget --yes",
			Read: func(a *command.Args) command.Run {
				yes := a.Bool("yes", "do it, and not only say what would be given up")
				return func(ctx context.Context) error { return backup.Forget(ctx, m, os.Stdout, *yes) }
			},
		},
		{
			Name:  "show",
			About: "print the members of etcd, and how they are",
			Read: func(a *command.Args) command.Run {
				asJSON := a.Bool("json", "as JSON")
				return func(ctx context.Context) error { return membership.Show(ctx, m, os.Stdout, *asJSON) }
			},
		},
		{
			Name: "bootstrap",
			About: "form etcd anew with this master and those others that are empty; it is formed by itself when all masters " +
				"answer that they are",
			Example: "spore-agent etcd bootstrap --force --lose master-2,master-3",
			Read: func(a *command.Args) command.Run {
				force := a.Bool("force", "has to be said")
				lose := a.String("lose", "NAME,...", "give up what these masters have or may have")
				return func(ctx context.Context) error {
					if !*force {
						return command.Wrongly("--force is missing")
					}
					var names []string
					if *lose != "" {
						names = strings.Split(*lose, ",")
					}
					return membership.Bootstrap(ctx, m, os.Stdout, names)
				}
			},
		},
		{Name: "enter", About: "have the others let this master in, before etcd starts", Read: plain(m, membership.Enter)},
		{Name: "promote", About: "wait until this master's etcd votes", Read: plain(m, membership.Promote)},
		{
			Name:  "members",
			About: "keep the members of etcd as cluster.yaml has them, until stopped",
			Read:  plain(m, membership.Keep),
		},
		{Name: "snapshot take", About: "save etcd now", Read: printing(m, backup.Take)},
		{
			Name:  "snapshot list",
			About: "list the snapshots that are kept here",
			Read: func(a *command.Args) command.Run {
				asJSON := a.Bool("json", "as JSON")
				return func(context.Context) error { return backup.List(m, os.Stdout, *asJSON) }
			},
		},
		{Name: "snapshot check", About: "read and open all that there is", Read: printing(m, backup.Check)},
		{
			Name:    "snapshot open",
			About:   "decrypt a snapshot into a file that etcdutl takes",
			Example: "spore-agent etcd snapshot open FILE OUT",
			Read: func(a *command.Args) command.Run {
				words := a.Words("FILE OUT", 2, 2)
				return func(context.Context) error { return backup.Open(m, os.Stdout, (*words)[0], (*words)[1]) }
			},
		},
		{Name: "snapshot run", About: "keep snapshots until stopped, for the unit", Read: plain(m, backup.Run)},
	}}
}

// readRestore reads what a restore is to do.
func readRestore(run func(context.Context, backup.Options) error) func(*command.Args) command.Run {
	return func(a *command.Args) command.Run {
		latest := a.Bool("latest", "the newest of all masters' snapshots, as without --from")
		from := a.String("from", "FILE", "this snapshot")
		giveUp := a.Bool("give-up-quorum", "also where a quorum of this master alone is alive")
		yes := a.Bool("yes", "do it, and not only say what would be lost")
		resume := a.Bool("resume", "go on with a restore that a power cut ended; the start of etcd calls it")
		return func(ctx context.Context) error {
			switch {
			case *latest && *from != "":
				return command.Wrongly("--latest and --from do not go together")
			case *resume && (*latest || *from != "" || *giveUp || *yes):
				return command.Wrongly("--resume goes with no other option")
			}
			return run(ctx, backup.Options{From: *from, Yes: *yes, GiveUp: *giveUp, Resume: *resume})
		}
	}
}

// plain is a command without options and words.
func plain(m *master.Machine, run func(context.Context, *master.Machine) error) func(*command.Args) command.Run {
	return func(*command.Args) command.Run { return func(ctx context.Context) error { return run(ctx, m) } }
}

// printing is one that prints what it finds.
func printing(m *master.Machine, run func(context.Context, *master.Machine, io.Writer) error) func(*command.Args) command.Run {
	return plain(m, func(ctx context.Context, m *master.Machine) error { return run(ctx, m, os.Stdout) })
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := table(master.New("/")).Dispatch(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "spore-etcd:", err)
	}
	os.Exit(command.Status(err))
}
