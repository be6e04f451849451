package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// elsewhere begins the reason of a test that is right to be skipped on every machine, since something else runs it:
// `make soak`, or another test as a process of its own. The rest of the reason names that.
const elsewhere = "elsewhere: "

// skip is a test that was skipped.
type skip struct {
	Package, Test, Reason string
}

// name is the test as people look for it.
func (s skip) name() string { return path.Base(s.Package) + "." + s.Test }

// addSkips adds lines to a file, which several programs may do at a time.
func addSkips(name string, skips []skip) (err error) {
	if len(skips) == 0 {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var b bytes.Buffer
	for _, s := range skips {
		if err := json.NewEncoder(&b).Encode(s); err != nil {
			return err
		}
	}
	_, err = f.Write(b.Bytes())
	return err
}

// readSkips reads what addSkips wrote. No file is nothing skipped.
func readSkips(name string) (skips []skip, err error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
		var s skip
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !slices.Contains(skips, s) {
			skips = append(skips, s)
		}
	}
	return skips, nil
}

// summary says which tests were skipped: why, those that something else runs, and as its last line how many.
func summary(skips []skip, uid int) string {
	var b strings.Builder
	var away, names []string
	for _, s := range skips {
		if where, ok := strings.CutPrefix(s.Reason, elsewhere); ok {
			away = append(away, s.name()+" ("+where+")")
			continue
		}
		names = append(names, s.name())
		fmt.Fprintf(&b, "skipped %s: %s\n", s.name(), s.Reason)
	}
	if len(away) > 0 {
		fmt.Fprintf(&b, "%d run elsewhere: %s\n", len(away), strings.Join(away, ", "))
	}
	if len(names) == 0 {
		return b.String() + "0 skipped\n"
	}
	if uid != 0 {
		b.WriteString("Those that take root run with: sudo env \"PATH=$PATH\" make test\n")
	}
	fmt.Fprintf(&b, "%d skipped: %s\n", len(names), strings.Join(names, ", "))
	return b.String()
}
