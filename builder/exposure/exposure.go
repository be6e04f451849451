// Package exposure asks systemd-analyze of this machine how much a service may do that it does not need
// (systemd-analyze(1), security). It reads texts of units and starts nothing. What the figure is made of depends on the
// version of systemd here, which may be older than that of the image.
package exposure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Bounds of one question; maxAnswer is in bytes.
const (
	bound     = 10 * time.Second
	maxAnswer = 1 << 20
)

// Level is how exposed a service is.
type Level struct {
	// Figure is from 0, which is the least, to 10.
	Figure float64 `json:"figure"`
	// Word is that of systemd, such as OK.
	Word string `json:"word"`
}

// overall is the last line of the answer, without emoji.
var overall = regexp.MustCompile(`(?m)^\S+ Overall exposure level for \S+: ([0-9]+\.[0-9]) ([A-Z]+)`)

// Of asks the program at a path about a service. files are the texts of its unit and of its drop-ins, by their paths
// such as gateway.service and gateway.service.d/90-role.conf; the unit itself is among them.
func Of(ctx context.Context, program, unit string, files map[string]string) (Level, error) {
	level, err := of(ctx, program, unit, files)
	if err != nil {
		return Level{}, fmt.Errorf("ask systemd-analyze about %s: %w", unit, err)
	}
	return level, nil
}

func of(ctx context.Context, program, unit string, files map[string]string) (Level, error) {
	dir, err := os.MkdirTemp("", "spore-exposure-")
	if err != nil {
		return Level{}, err
	}
	defer os.RemoveAll(dir)
	for name, text := range files {
		if !filepath.IsLocal(name) {
			return Level{}, fmt.Errorf("internal error: %s is not a name of a unit", name)
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return Level{}, err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return Level{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var said, failed clipped
	cmd := exec.CommandContext(ctx, program, "security", "--offline=yes", "--no-pager", filepath.Join(dir, unit))
	cmd.Env = []string{"LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_EMOJI=0", "PATH=/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &failed, time.Second
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return Level{}, fmt.Errorf("it did not answer within %s", bound)
	case err != nil:
		text := strings.TrimSpace(failed.String())
		return Level{}, fmt.Errorf("%w: %s", err, text[strings.LastIndex(text, "\n")+1:])
	}
	return read(said.Bytes())
}

// read finds the figure in an answer.
func read(answer []byte) (Level, error) {
	m := overall.FindSubmatch(answer)
	if m == nil {
		return Level{}, errors.New("its answer has no overall exposure level; this version of systemd is not known")
	}
	figure, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil || figure > 10 {
		return Level{}, fmt.Errorf("its answer has the exposure level %.20s, which is not from 0 to 10", m[1])
	}
	return Level{figure, string(m[2])}, nil
}

// clipped keeps the beginning of what is written to it.
type clipped struct{ bytes.Buffer }

func (c *clipped) Write(data []byte) (int, error) {
	if room := maxAnswer - c.Len(); room > 0 {
		c.Buffer.Write(data[:min(room, len(data))])
	}
	return len(data), nil
}
