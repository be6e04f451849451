// Command spore-role is the part of the agent that renders the files of a role that a configuration has of its own,
// from templates, and that asks it for its health by a command. Only images with such a role have it: the agent of
// others has no templates in it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"spore/agent/command"
	"spore/agent/node"
	"spore/agent/rolefiles"
	"spore/agent/rolehealth"
	"spore/agent/status"
	"spore/cluster/role"
	"spore/services"
)

// table is what there is, and what it takes.
func table(m *node.Machine) command.Table {
	return command.Table{Program: "spore-role", Example: "spore-role files valkey", Commands: []command.Command{{
		Name:    "files",
		About:   "write the files of a role that the configuration has of its own; each of its units calls it",
		Example: "spore-role files valkey",
		Read: func(a *command.Args) command.Run {
			words := a.Words("NAME", 1, 1)
			return func(ctx context.Context) error { return rolefiles.Run(ctx, m, (*words)[0]) }
		},
	}, {
		Name:    "health",
		About:   "run the command of a role's health, and leave what came of it for the node's API; a timer calls it",
		Example: "spore-role health valkey",
		Read: func(a *command.Args) command.Run {
			words := a.Words("NAME", 1, 1)
			return func(ctx context.Context) error { return askHealth(ctx, m, (*words)[0]) }
		},
	}}}
}

// askHealth runs as the user of the role.
func askHealth(ctx context.Context, m *node.Machine, name string) error {
	c, _, err := m.Self()
	if err != nil {
		return err
	}
	own, _ := services.Of(c).Own(name)
	d, ok := own.(*role.Definition)
	if !ok {
		return fmt.Errorf("ask the role %.64q for its health: the configuration has no role of its own of this name", name)
	}
	return rolehealth.Run(ctx, d, m.Root.At("/run/"+d.HealthName()), status.SinceBoot)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := table(node.New("spore-role", "/")).Dispatch(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "spore-role:", err)
	}
	os.Exit(command.Status(err))
}
