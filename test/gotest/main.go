// Program gotest runs go test, prints what go test prints, and says which tests were skipped: go test is green without
// them.
//
//	go run ./test/gotest -count=1 ./agent/...
//	go run ./test/gotest -C payloads/spore-rbd ./...
//
// Its arguments are those of go test. In a stage of `make test` it writes down what was skipped and what failed, and
// its exit code is 0 also when tests failed: they may have one more run, so that only the end of all stages
// (test/stage) can say whether they are red, and what comes after it in its stage runs, too.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"spore/test/events"
	"spore/test/ledger"
)

func main() {
	code, err := work(os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func work(out io.Writer, args []string) (code int, err error) {
	o, err := events.Run(out, nil, nil, args)
	if err != nil {
		return 0, err
	}
	if l := ledger.Ledger(os.Getenv(ledger.Variable)); l != "" {
		return 0, leave(l, o, args)
	}
	details, end := ledger.Skipped(o.Skips, os.Geteuid())
	fmt.Fprint(out, details, end)
	if o.Code != 0 {
		return 1, nil
	}
	return 0, nil
}

// leave leaves the outcome to the end of the run.
func leave(l ledger.Ledger, o events.Outcome, args []string) error {
	if err := l.AddSkips(o.Skips); err != nil {
		return err
	}
	for _, f := range o.Failures {
		err := l.AddFailure(ledger.Failure{Stage: os.Getenv(ledger.StageVariable), Failure: f,
			Args: events.ParseArgs(args), Env: own(os.Environ())})
		if err != nil {
			return err
		}
	}
	return nil
}

// own are the variables that a stage may set: ours. The others are those of the whole run, and may be secrets.
func own(env []string) (vars []string) {
	for _, v := range env {
		if strings.HasPrefix(v, "SPORE_") {
			vars = append(vars, v)
		}
	}
	return vars
}
