// Package unit is what victoria-metrics.service runs around the store: it makes room in its data before it starts, and
// has it start again when they fill more than they may. The store cannot do that itself (package room). It has what
// waits for the store, too.
package unit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"spore/services/metrics/room"
)

// Options are what the store is and keeps to.
type Options struct {
	// Dir is the folder of its data.
	Dir string
	// Bytes is what they may fill; 0 is without a bound.
	Bytes uint64
	// Program is the store with its arguments.
	Program []string
	// Log takes what the store says.
	Log io.Writer
	// Look is how long lies between two looks at the data, and Pause how long the store runs at least before it is ended
	// for their sake; tests have other times than Usual.
	Look, Pause time.Duration
	// Patience is how long the store has to end; without a bound when 0.
	Patience time.Duration
	// Floor and Enough are those of room.Limits.
	Floor, Enough uint64
}

// Usual are the times and bounds of a node. The store takes nothing more below 512 MiB (its unit), so room is made
// above that.
func Usual(dir string, bytes uint64, program []string) Options {
	return Options{
		Dir: dir, Bytes: bytes, Program: program, Log: os.Stderr, Look: 30 * time.Second, Pause: 10 * time.Minute,
		Patience: time.Minute, Floor: 640 << 20, Enough: 1 << 30,
	}
}

// Run runs the store until ctx is over, and ends with an error when the store ends by itself.
func Run(ctx context.Context, o Options, say func(string)) error {
	limits := room.Limits{Bytes: o.Bytes, Floor: o.Floor, Enough: o.Enough}
	for {
		// Where that does not work, a store that takes nothing more is better than none.
		if err := room.Make(o.Dir, limits, say); err != nil {
			say(err.Error())
		}
		again, err := o.once(ctx, limits, say)
		if err != nil || !again {
			return err
		}
	}
}

// once starts the store and waits until it has ended; again tells that it was ended to make room.
func (o Options) once(ctx context.Context, limits room.Limits, say func(string)) (again bool, err error) {
	cmd := exec.Command(o.Program[0], o.Program[1:]...)
	cmd.Stdout, cmd.Stderr = o.Log, o.Log
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start the store: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	began := time.Now()
	looks := time.NewTicker(o.Look)
	defer looks.Stop()
	problem := ""
	for {
		select {
		case err := <-ended:
			return false, errors.Join(errors.New("the store has ended"), err)
		case <-ctx.Done():
			return false, o.end(cmd, ended)
		case <-looks.C:
		}
		if time.Since(began) < o.Pause {
			continue
		}
		over, err := room.Over(o.Dir, limits)
		if err != nil && err.Error() != problem {
			problem = err.Error()
			say(problem)
		}
		if over {
			return true, o.end(cmd, ended)
		}
	}
}

// end has the store write what it has in memory, and waits for it. One that does not end is killed: the unit begins anew.
func (o Options) end(cmd *exec.Cmd, ended <-chan error) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end the store: %w", err)
	}
	var late <-chan time.Time
	if o.Patience > 0 {
		late = time.After(o.Patience)
	}
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("the store was told to end: %w", err)
		}
		return nil
	case <-late:
		killed := cmd.Process.Kill()
		return errors.Join(fmt.Errorf("the store was told to end, and did not within %s", o.Patience), killed, <-ended)
	}
}
