// Program gotest runs go test, prints what go test prints, and keeps which tests were skipped: go test is green without
// them.
//
//	go run ./test/gotest -count=1 ./agent/...
//	go run ./test/gotest -C payloads/spore-rbd ./...
//	go run ./test/gotest skipped out/stages.skips
//
// Its arguments are those of go test. SPORE_SKIPS names the file that it adds skipped tests to; without it, it prints
// them at the end. `skipped FILE` prints them for a whole run of several.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
)

// skipsVariable names the file of skipped tests.
const skipsVariable = "SPORE_SKIPS"

func main() {
	code, err := work(os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func work(out io.Writer, args []string) (code int, err error) {
	if len(args) == 2 && args[0] == "skipped" {
		skips, err := readSkips(args[1])
		if err == nil {
			fmt.Fprint(out, summary(skips, os.Geteuid()))
		}
		return 0, err
	}
	code, skips, err := goTest(out, args)
	if err != nil {
		return 0, err
	}
	if file := os.Getenv(skipsVariable); file != "" {
		return code, addSkips(file, skips)
	}
	fmt.Fprint(out, summary(skips, os.Geteuid()))
	return code, nil
}

// goTest runs go test and returns its exit code.
func goTest(out io.Writer, args []string) (code int, skips []skip, err error) {
	// An interrupt goes to the whole group; what go test says of it is printed still.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	defer signal.Stop(ignored)

	cmd := exec.Command("go", command(args)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	p := printer{out: out, verbose: slices.Contains(args, "-v"), packages: map[string]*pkg{}}
	readErr := p.read(events)
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), p.skips, readErr
	} else if err != nil {
		return 0, nil, err
	}
	return 0, p.skips, readErr
}

// command is go test with events for output. go wants -C before everything else.
func command(args []string) []string {
	at := 0
	if len(args) > 1 && args[0] == "-C" {
		at = 2
	}
	return slices.Concat([]string{"test"}, args[:at], []string{"-json"}, args[at:])
}
