// Program stage runs the stages of `make test`, and says at their end where the time went, what failed and what was
// skipped. Tests that failed have one more run at the end, when nothing else runs: a test that passes then has lost a
// race for the machine, and is named without making the run red.
//
//	go run ./test/stage begin
//	go run ./test/stage run "foreign tools" go run ./test/gotest -tags integration ./builder/...
//	go run ./test/stage end -limit 85m -flaky out/results/flaky.md
//
// SPORE_RUN names the folder of the run. In a run, a stage that fails ends with 0, so that later stages run as well;
// end ends with 1 then. Without SPORE_RUN there is no end: `stage run` has the exit code of its command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"spore/test/ledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	code, err := work(ctx, os.Stdout, ledger.Ledger(os.Getenv(ledger.Variable)), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func work(ctx context.Context, out io.Writer, l ledger.Ledger, args []string) (int, error) {
	switch {
	case len(args) > 2 && args[0] == "run":
		return run(out, l, args[1], args[2:])
	case l == "":
		return 0, fmt.Errorf("%s names no folder; write stage run NAME COMMAND..., or use make test", ledger.Variable)
	case len(args) == 1 && args[0] == "begin":
		return 0, l.Begin(time.Now())
	case len(args) > 0 && args[0] == "end":
		o := options{most: 5}
		flags := flag.NewFlagSet("stage end", flag.ContinueOnError)
		flags.DurationVar(&o.limit, "limit", 0, "how long after `stage begin` second runs may take (default: no limit)")
		flags.StringVar(&o.flaky, "flaky", "", "the file that keeps which tests passed only in their second run")
		if err := flags.Parse(args[1:]); err != nil {
			return 0, err
		}
		return end(ctx, out, l, o)
	}
	return 0, errors.New("write stage begin, stage run NAME COMMAND..., or stage end")
}

// run runs a stage, and prints and keeps what it took.
func run(out io.Writer, l ledger.Ledger, name string, command []string) (int, error) {
	fmt.Fprintf(out, "== %s\n", name)
	start := time.Now()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	cmd.Env = append(os.Environ(), ledger.StageVariable+"="+name)
	s := ledger.Stage{Name: name}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		s.Code = max(exit.ExitCode(), 1) // -1 of a signal
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		s.Code = 127 // as of a shell
	}
	s.Wall = time.Since(start)
	if cmd.ProcessState != nil {
		s.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if l == "" {
		fmt.Fprint(out, row(s, nil, false))
		return s.Code, nil
	}
	failures, err := l.Failures()
	if err != nil {
		return 0, err
	}
	fmt.Fprint(out, row(s, namesIn(s.Name, failures), false))
	return 0, l.AddStage(s)
}
