package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Exec runs a program; its output goes to the journal, and the last of it into the error.
func Exec(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		if i := strings.LastIndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}

// Output runs a program and returns what it prints; the last line of its standard error goes into the error.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, text[strings.LastIndexByte(text, '\n')+1:])
	}
	return out, nil
}

// Creds runs systemd-creds. Secrets pass through pipes alone, and what it says is on its standard error.
func Creds(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "systemd-creds", args...)
	cmd.Stdin = bytes.NewReader(input)
	return Output(cmd)
}

// AskPassphrase asks at the console, by systemd's agent there.
func AskPassphrase(ctx context.Context, id, prompt string) (string, error) {
	cmd := exec.CommandContext(ctx, "systemd-ask-password", "--no-tty", "--timeout=0", "--id="+id, prompt)
	out, err := Output(cmd)
	return strings.TrimSuffix(string(out), "\n"), err
}
