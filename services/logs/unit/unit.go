// Package unit is what victoria-logs.service runs around the store: it has the oldest days go (package days), and says
// how the store is.
package unit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spore/services/logs"
	"spore/services/logs/days"
	"spore/storage/atomicfile"
)

// Options are what the store is and keeps to.
type Options struct {
	Store  days.Store
	Limits days.Limits
	// Program is the store with its arguments.
	Program []string
	// Log takes what the store says.
	Log io.Writer
	// Counters is the file of how the store is, in the text format of Prometheus; none when empty.
	Counters string
	// Look is how long lies between two looks at the store; tests have another time than Usual. Now is the clock.
	Look time.Duration
	Now  func() time.Time
	// Patience is how long the store has to end.
	Patience time.Duration
}

// Usual are the times and bounds of a node. The store takes nothing more below 512 MiB (its unit), and a store of
// metrics on the same disk gives something up below 640 MiB: logs go before.
func Usual(dir, passwordFile, counters string, kept int, bytes uint64, program []string) Options {
	return Options{
		Store: days.Store{
			Dir: dir, Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(logs.Port)), PasswordFile: passwordFile,
			Free: days.Free,
		},
		Limits:  days.Limits{Days: kept, Bytes: bytes, Floor: 1 << 30, Enough: 3 << 29},
		Program: program, Log: os.Stderr, Counters: counters, Look: 10 * time.Second, Now: time.Now, Patience: time.Minute,
	}
}

// Run runs the store until ctx is over, and ends with an error when the store ends by itself.
func Run(ctx context.Context, o Options, say func(string)) error {
	// Where that does not work, a store that takes nothing more is better than none.
	if err := o.Store.Prepare(o.Limits, o.Now(), say); err != nil {
		say(err.Error())
	}
	// It writes what it has in memory when it is told to end.
	cmd := exec.CommandContext(ctx, o.Program[0], o.Program[1:]...)
	cmd.Stdout, cmd.Stderr = o.Log, o.Log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = o.Patience
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the store: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	looking, stop := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		(&watch{Options: o, say: say}).run(looking)
	}()
	err := <-ended
	stop()
	<-looked
	if ctx.Err() != nil {
		if err != nil && cmd.ProcessState != nil && !cmd.ProcessState.Success() {
			return fmt.Errorf("the store was told to end: %w", err)
		}
		return nil
	}
	return errors.Join(errors.New("the store has ended"), err)
}

// quiet is for how long a store that does not answer is not spoken of: it opens its data.
const quiet = 2 * time.Minute

// watch looks at a running store.
type watch struct {
	Options
	say func(string)
	// problem is what was said last of a store that does not answer, and answered when the store answered last.
	problem  string
	answered time.Time
	removed  int
	over     bool
	readOnly bool
	// unwritten says that the counters could not be written the last time.
	unwritten bool
}

func (w *watch) run(ctx context.Context) {
	ticker := time.NewTicker(w.Look)
	defer ticker.Stop()
	w.answered = time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.once(ctx)
	}
}

func (w *watch) once(ctx context.Context) {
	now := w.Now()
	st, gone, err := w.Store.Keep(ctx, w.Limits, now, w.say)
	w.removed += gone
	if err != nil {
		if ctx.Err() == nil && time.Since(w.answered) > quiet && err.Error() != w.problem {
			w.problem = err.Error()
			w.say(w.problem)
		}
		return
	}
	w.problem, w.answered = "", time.Now()
	over := w.Limits.Bytes > 0 && st.Bytes > w.Limits.Bytes
	if over && !w.over {
		w.say(fmt.Sprintf("the entries of one day fill %d MiB, and all may fill %d MiB: nothing is left that could go; "+
			"write a larger size into services/logs.yaml, or have less logged", st.Bytes>>20, w.Limits.Bytes>>20))
	}
	if st.ReadOnly && !w.readOnly {
		w.say(fmt.Sprintf("the disk has only %d MiB left and no day can go: the store takes nothing, and nodes keep what "+
			"they have", st.Free>>20))
	}
	if !st.ReadOnly && w.readOnly {
		w.say("the store takes entries again")
	}
	w.over, w.readOnly = over, st.ReadOnly
	if w.Counters == "" {
		return
	}
	err = w.write(st)
	if err != nil && !w.unwritten {
		w.say(err.Error())
	}
	w.unwritten = err != nil
}

// write writes how the store is.
func (w *watch) write(st days.State) error {
	var b strings.Builder
	put := func(kind, name, help string, value any) {
		fmt.Fprintf(&b, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n%[1]s %[4]v\n", name, help, kind, value)
	}
	put("gauge", "spore_logs_store_size_bytes", "What entries and their index fill.", st.Bytes)
	put("gauge", "spore_logs_store_bound_bytes", "What they may fill; 0 is without a bound.", w.Limits.Bytes)
	put("gauge", "spore_logs_store_free_bytes", "What the disk of the store has free.", st.Free)
	put("gauge", "spore_logs_store_partitions", "How many days the store has, a partition each.", len(st.Days))
	if len(st.Days) > 0 {
		if t, err := time.Parse(days.Form, st.Days[0]); err == nil {
			put("gauge", "spore_logs_store_oldest_timestamp_seconds", "When the oldest day of the store began.", t.Unix())
		}
	}
	put("counter", "spore_logs_store_removed_partitions_total", "How many days went since the store started.", w.removed)
	put("gauge", "spore_logs_store_over_bound", "Whether one day alone fills more than all may.", bit(w.over))
	put("gauge", "spore_logs_store_read_only", "Whether the store takes nothing, for want of space.", bit(w.readOnly))
	if err := atomicfile.Replace(w.Counters, []byte(b.String()), 0o644, atomicfile.Unsynced); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(w.Counters), err)
	}
	return nil
}

func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}
