package events

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
)

// Run runs go test with arguments and prints what it says. An error is that go test could not be run; that it failed is
// in the outcome. No environment is that of the program. All that tests say goes to the log as well, if there is one.
func Run(out, log io.Writer, env, args []string) (Outcome, error) {
	// An interrupt goes to the whole group; what go test says of it is printed still.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	defer signal.Stop(ignored)

	cmd := exec.Command("go", command(args)...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return Outcome{}, err
	}
	if err := cmd.Start(); err != nil {
		return Outcome{}, err
	}
	parsed := ParseArgs(args)
	p := newPrinter(out, log, parsed.Verbose)
	p.declared = func(pkg string) ([]string, error) { return declared(parsed, env, pkg) }
	readErr := p.read(events)
	code := 0
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		code = exit.ExitCode() // -1 of a signal
	} else if err != nil {
		return Outcome{}, err
	}
	p.exit(code)
	p.outcome.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return p.outcome, readErr
}

// command is go test with events for output. go wants -C before everything else.
func command(args []string) []string {
	at := 0
	if len(args) > 1 && args[0] == "-C" {
		at = 2
	}
	return slices.Concat([]string{"test"}, args[:at], []string{"-json"}, args[at:])
}
