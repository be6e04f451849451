package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxInput is the largest input that is kept, in bytes; larger ones say little more and fill the repository.
	maxInput = 4 << 10
	// maxTried bounds the inputs of one target that are tried, the smallest first.
	maxTried = 200
)

// keepAll copies into testdata, for each target, the smallest inputs of the fuzzer's cache that reach statements which the
// seeds, and the inputs that are there, do not.
func keepAll(ctx context.Context, out io.Writer, targets []target, most int) error {
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("ask go for its cache: %w", err)
	}
	for _, t := range targets {
		found := filepath.Join(strings.TrimSpace(string(cache)), "fuzz", filepath.FromSlash(t.pkg), t.name)
		n, err := keep(ctx, t, found, most)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if n > 0 {
			fmt.Fprintf(out, "%-60s %d more\n", t, n)
		}
	}
	return nil
}

// keep handles one target and returns how many inputs it added.
func keep(ctx context.Context, t target, found string, most int) (int, error) {
	inputs, err := candidates(found)
	if err != nil || len(inputs) == 0 {
		return 0, err
	}
	there, err := os.ReadDir(t.corpus())
	if err != nil && !os.IsNotExist(err) {
		return 0, err
	}
	room := most - len(there)
	if room <= 0 {
		return 0, nil
	}
	work, err := os.MkdirTemp("", "spore-fuzz-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	c := coverage{target: t, program: filepath.Join(work, "test"), profile: filepath.Join(work, "profile")}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-cover", "-o", c.program, t.pkg)
	build.Dir = t.module
	if text, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("compile the tests: %w\n%s", err, text)
	}
	seen, err := c.reached(ctx, "")
	if err != nil {
		return 0, err
	}
	added := 0
	for _, in := range inputs {
		if added == room {
			break
		}
		isNew, err := c.try(ctx, in, seen)
		if err != nil {
			return added, err
		}
		if isNew {
			added++
		}
	}
	return added, nil
}

// candidates are the inputs of a folder, the smallest first and by their names.
func candidates(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	var out []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() && info.Size() <= maxInput {
			sizes[filepath.Join(dir, e.Name())] = info.Size()
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if d := sizes[a] - sizes[b]; d != 0 {
			return int(d)
		}
		return strings.Compare(a, b)
	})
	return out[:min(len(out), maxTried)], nil
}

// coverage runs a target on the inputs of its corpus and tells what they reach.
type coverage struct {
	target
	program, profile string
}

// try puts an input into the corpus and takes it out again when it reaches nothing that is not in seen.
func (c coverage) try(ctx context.Context, input string, seen map[string]bool) (bool, error) {
	data, err := os.ReadFile(input)
	if err != nil {
		return false, err
	}
	name := filepath.Base(input)
	place := filepath.Join(c.corpus(), name)
	if _, err := os.Stat(place); err == nil {
		return false, nil
	}
	if err := os.MkdirAll(c.corpus(), 0o755); err != nil {
		return false, err
	}
	if err := os.WriteFile(place, data, 0o644); err != nil {
		return false, err
	}
	blocks, err := c.reached(ctx, name)
	isNew := false
	for b := range blocks {
		isNew = isNew || !seen[b]
		seen[b] = true
	}
	if err != nil || !isNew {
		os.Remove(place)
		os.Remove(c.corpus()) // only where it is empty
		os.Remove(filepath.Dir(c.corpus()))
		os.Remove(filepath.Dir(filepath.Dir(c.corpus())))
	}
	return isNew && err == nil, err
}

// reached runs the target on one input of its corpus, or on all of them and the seeds when name is empty, and returns the
// blocks of statements that were executed.
func (c coverage) reached(ctx context.Context, name string) (map[string]bool, error) {
	run := "^" + c.name + "$"
	if name != "" {
		run += "/^" + name + "$"
	}
	cmd := exec.CommandContext(ctx, c.program, "-test.run", run, "-test.coverprofile", c.profile)
	cmd.Dir = c.dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("an input of the corpus fails: %w\n%s", err, text)
	}
	text, err := os.ReadFile(c.profile)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range bytes.Lines(text) {
		block, rest, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if strings.HasSuffix(rest, " 1") { // mode: set
			out[block] = true
		}
	}
	return out, nil
}
