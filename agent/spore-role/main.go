// Command spore-role is the part of the agent that renders the files of a role that a configuration has of its own,
// from templates, that asks it for its health by a command, and that runs its tests. Only images with such a role have
// it: the agent of others has no templates in it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"spore/agent/command"
	"spore/agent/node"
	"spore/agent/rolefiles"
	"spore/agent/rolehealth"
	"spore/agent/roletests"
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
			return func(ctx context.Context) error { return rolefiles.Run(ctx, m, (*words)[0], rolefiles.Account) }
		},
	}, {
		Name:    "health",
		About:   "run the command of a role's health, and leave what came of it for the node's API; a timer calls it",
		Example: "spore-role health valkey",
		Read: func(a *command.Args) command.Run {
			words := a.Words("NAME", 1, 1)
			return func(ctx context.Context) error { return askHealth(ctx, m, (*words)[0]) }
		},
	}, {
		Name:    "tests",
		About:   "run the tests of a role until the standard input ends, and print what came of each; a socket starts it",
		Example: "spore-role tests valkey",
		Read: func(a *command.Args) command.Run {
			words := a.Words("NAME", 1, 1)
			return func(ctx context.Context) error { return runTests(ctx, m, (*words)[0], os.Stdin, os.Stdout) }
		},
	}}}
}

// own is the definition of a role of the configuration's own.
func own(m *node.Machine, name string) (*role.Definition, error) {
	c, _, err := m.Self()
	if err != nil {
		return nil, err
	}
	of, _ := services.Of(c).Own(name)
	d, ok := of.(*role.Definition)
	if !ok {
		return nil, errors.New("the configuration has no role of its own of this name")
	}
	return d, nil
}

// runTests runs as the user of the role.
func runTests(ctx context.Context, m *node.Machine, name string, asked io.Reader, out io.Writer) error {
	d, err := own(m, name)
	if err != nil {
		return fmt.Errorf("run the tests of the role %.64q: %w", name, err)
	}
	return roletests.Run(ctx, d, asked, out)
}

// askHealth runs as the user of the role.
func askHealth(ctx context.Context, m *node.Machine, name string) error {
	d, err := own(m, name)
	if err != nil {
		return fmt.Errorf("ask the role %.64q for its health: %w", name, err)
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
