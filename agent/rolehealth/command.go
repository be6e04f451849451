package rolehealth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"spore/cluster/role"
	"spore/storage/atomicfile"
)

// Result is what came of the command of a role's health, in the file that a unit with the role's user leaves for the
// node's API.
type Result struct {
	// At is when the command ended, in seconds since boot.
	At float64 `json:"at"`
	// Problem says why the command failed; empty when it ended with status 0.
	Problem string `json:"problem,omitempty"`
}

// Times and bounds of commands.
const (
	// CommandBound is how long the command may take.
	CommandBound = 10 * time.Second
	// stale is the age, in seconds, of a result that says nothing any more: it comes every half a minute.
	stale = 150
	// maxResult and maxPrinted are in bytes.
	maxResult, maxPrinted = 4 << 10, 1 << 10
)

// resultFile is where a result lies in the directory of its unit.
const resultFile = "result"

// Run runs the command of a role, as this process's user, and leaves the result in a directory. A command that fails is
// a result, and no error.
func Run(ctx context.Context, d *role.Definition, dir string, sinceBoot func() float64) error {
	if !d.AsksByCommand() {
		return fmt.Errorf("ask the role %s for its health: it has no command for that", d.Name)
	}
	problem := run(ctx, d.Health.Command)
	return atomicfile.WriteJSON(filepath.Join(dir, resultFile), Result{At: sinceBoot(), Problem: problem})
}

func run(ctx context.Context, words []string) string {
	ctx, cancel := context.WithTimeout(ctx, CommandBound)
	defer cancel()
	var said printed
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("%s did not end within %s", words[0], CommandBound)
	case err == nil:
		return ""
	}
	text, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
	if text != "" {
		text = ": " + text
	}
	return Line(fmt.Sprintf("%s: %v%s", words[0], err, text))
}

// printed keeps the beginning of what is written to it.
type printed struct{ bytes.Buffer }

func (p *printed) Write(data []byte) (int, error) {
	if room := maxPrinted - p.Len(); room > 0 {
		p.Buffer.Write(data[:min(room, len(data))])
	}
	return len(data), nil
}

// result reads what a unit has left. The user of the role can write there, whatever it likes.
func (a Asker) result(d *role.Definition) (string, error) {
	root, err := os.OpenRoot(filepath.Join(a.Results, d.HealthName()))
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNotAsked
	}
	if err != nil {
		return "", fmt.Errorf("read what its command says: %w", err)
	}
	defer root.Close()
	data, err := atomicfile.ReadLimitedIn(root, resultFile, maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNotAsked
	}
	if err != nil {
		return "", fmt.Errorf("read what its command says: %w", err)
	}
	return judge(data, a.SinceBoot(), d.Health.Command[0])
}

var errNotAsked = errors.New("its command was not run yet")

// judge reads a result, some seconds since boot.
func judge(data []byte, now float64, program string) (string, error) {
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return "", errors.New("what its command says cannot be read")
	}
	switch age := now - r.At; {
	case age > stale || age < 0:
		return "", fmt.Errorf("its command was not run within %d s", stale)
	case r.Problem != "":
		return "", errors.New(Line(r.Problem))
	}
	return "is well by " + program, nil
}
