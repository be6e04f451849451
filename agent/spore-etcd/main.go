// Command spore-etcd is the part of the agent that speaks to etcd: who its members are, what is kept of it, and what is held by
// a lease in it. Only images with Kubernetes have it. docs/formation.md and docs/high-availability.md tell what for.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// command is a subcommand.
type command struct {
	name, usage, about string
	run                func(ctx context.Context, m *machine, args []string) error
}

// commands is the table of subcommands.
func commands() []command {
	return []command{
		{"endpoint", "", "hold the virtual address of the Kubernetes API when it is this master's turn, until stopped", endpointCommand},
		{"restore", "[--latest|--from FILE] [--yes]", "make a new etcd of this master alone from a snapshot, when the quorum is lost", restoreCommand},
		{"show", "[--json]", "print the members of etcd, and how they are", showCommand},
		{"bootstrap", "--force [--lose NAME,...]", "form etcd anew with this master, where the others have lost their data", bootstrapCommand},
		{"enter", "", "have the others let this master in, before etcd starts", enterCommand},
		{"promote", "", "wait until this master's etcd votes", promoteCommand},
		{"members", "", "keep the members of etcd as cluster.yaml has them, until stopped", membersCommand},
		{"snapshot", "take|list|check|open FILE OUT", "save etcd now; list what is kept here; check or decrypt it", snapshotCommand},
	}
}

// usageError is wrong usage: exit code 2.
type usageError struct{ text string }

func (u usageError) Error() string { return u.text }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := dispatch(ctx, newMachine("/"), os.Args)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "spore-etcd:", err)
	if _, ok := err.(usageError); ok {
		os.Exit(2)
	}
	os.Exit(1)
}

// dispatch runs what the arguments say.
func dispatch(ctx context.Context, m *machine, args []string) error {
	if len(args) > 1 {
		for _, c := range commands() {
			if c.name == args[1] {
				return c.run(ctx, m, args[2:])
			}
		}
	}
	if len(args) > 1 && (args[1] == "--help" || args[1] == "help") {
		fmt.Print(usage())
		return nil
	}
	return usageError{"wrong usage\n" + usage()}
}

func usage() string {
	s := "Usage: spore-agent etcd COMMAND\n\n"
	for _, c := range commands() {
		s += fmt.Sprintf("  %-46s %s\n", c.name+" "+c.usage, c.about)
	}
	return s + "\nExample: spore-agent etcd show\n"
}
