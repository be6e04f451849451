// Command spore-screen shows how the machine is to a person who stands before its monitor, or at its serial line
// (docs/screen.md). It is a program of its own: no terminal can hold up what starts the node's roles, and the agent
// needs none of what draws.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v3"

	"spore/agent/paths"
	"spore/agent/screen/console"
	"spore/agent/screen/look"
	"spore/agent/screen/question"
	"spore/agent/screen/terminal"
	"spore/storage/atomicfile"
)

// patience is how long a terminal may take to be given back when the program is told to end.
const patience = 2 * time.Second

func main() {
	serial := flag.Bool("serial", false, "the terminal is a serial line, which is given back")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	// A monitor that was stopped with Scroll Lock takes nothing, not even how it was before: the program ends all the same,
	// before systemd kills it and counts that as a failure (TimeoutStopSec=). The next one mends the terminal.
	context.AfterFunc(ctx, func() { time.AfterFunc(patience, func() { os.Exit(0) }) })
	if err := run(ctx, *serial); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "spore-screen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, serial bool) error {
	root := paths.Root("/")
	looker := look.Looker{Root: root, Journal: []string{"/usr/bin/journalctl"}, Now: time.Now, Last: new(look.Last)}
	o := terminal.Options{
		Source: looker, Choose: looker.Choose,
		Every: 2 * time.Second, Redraw: 10 * time.Second, Questions: question.Of{Root: root},
		Text: func() []byte { return console.Shown(root) },
	}
	if serial {
		// systemd asks there.
		o.Questions = nil
		o.Redraw, o.Leaves, o.Idle, o.Small = 0, true, 5*time.Minute, true
		o.Text = nil
		o.Asked = func() bool { return console.Asked(root) }
		if console.Asked(root) {
			return nil
		}
	}
	if !serial {
		// Nothing is read or drawn where nobody can see it.
		if console.AwaitSeen(ctx, root, 10*time.Second); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	// What cannot be mended is no terminal, as is said below.
	_ = console.Mend(os.Stdin)
	tty, err := tcell.NewStdIoTty()
	if err != nil {
		return fmt.Errorf("take the terminal: %w", err)
	}
	s, err := terminal.Open(tty)
	if err != nil {
		return fmt.Errorf("take the terminal: %w", err)
	}
	err = show(ctx, s, o)
	if !serial {
		return err
	}
	// The line goes on as a log: with how the machine is now, since what was said meanwhile was held back. It is read after
	// the line was given back, so that no change is between the two. Whoever reads the log takes it by lines, and the page
	// was one without an end.
	if lerr := console.Leave(root, console.Serial); lerr != nil {
		fmt.Fprintln(os.Stderr, "spore-screen:", lerr)
	}
	if data, rerr := atomicfile.ReadLimited(root.At(paths.Status), 1<<20); rerr == nil {
		_, _ = os.Stdout.Write(append([]byte("\n"), data...))
	}
	if errors.Is(err, terminal.ErrLeft) || errors.Is(err, terminal.ErrIdle) || errors.Is(err, terminal.ErrAsked) {
		return nil
	}
	return err
}

// show shows pages, and leaves the terminal as it was: also when that fails in a way that nobody thought of.
func show(ctx context.Context, s tcell.Screen, o terminal.Options) error {
	defer s.Fini()
	return terminal.Run(ctx, s, o)
}
