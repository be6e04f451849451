// Package ledger is a folder in which the stages of `make test` write down what its end needs: what each stage took,
// and which tests were skipped or failed, with their logs. Several programs may write at a time.
//
// Files are lines of JSON. It judges nothing; test/stage does.
package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spore/test/events"
)

const (
	// Variable names the folder for the stages of a run. A stage that runs by itself has none.
	Variable = "SPORE_RUN"
	// StageVariable is the name of the stage for the programs in it.
	StageVariable = "SPORE_STAGE"
)

// Ledger is the folder.
type Ledger string

const (
	began    = "began"
	stages   = "stages.json"
	skips    = "skips.json"
	failures = "failures.json"
)

// Stage is what came of a stage.
type Stage struct {
	Name      string
	Wall, CPU time.Duration
	// Code is the exit code of its command. That of test/gotest leaves failures to the end and is 0.
	Code int
}

// Failure is one reason why a stage failed, with what a second run of its tests needs.
type Failure struct {
	Stage string
	events.Failure
	Args events.Args
	// Env are the variables of the stage that are ours.
	Env []string
	// File is where the log of the failure is.
	File string
}

// Begin empties the folder for a new run.
func (l Ledger) Begin(now time.Time) error {
	if entries, err := os.ReadDir(string(l)); err == nil && len(entries) > 0 {
		if _, err := os.Stat(l.file(began)); err != nil {
			return fmt.Errorf("%s is the folder of another program: it has no file %s", string(l), began)
		}
		if err := os.RemoveAll(string(l)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(string(l), 0o755); err != nil {
		return err
	}
	return os.WriteFile(l.file(began), []byte(now.Format(time.RFC3339Nano)), 0o644)
}

// Began is when Begin was called.
func (l Ledger) Began() (time.Time, error) {
	data, err := os.ReadFile(l.file(began))
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, string(data))
}

// AddStage and the others add to the folder; Stages and the others read them.
func (l Ledger) AddStage(s Stage) error { return add(l.file(stages), s) }

func (l Ledger) Stages() ([]Stage, error) { return read[Stage](l.file(stages)) }

func (l Ledger) AddSkips(all []events.Skip) error { return add(l.file(skips), all...) }

func (l Ledger) Skips() ([]events.Skip, error) { return read[events.Skip](l.file(skips)) }

func (l Ledger) Failures() ([]Failure, error) { return read[Failure](l.file(failures)) }

// AddFailure keeps the log in a file of its own, by the name of the failure: NAME.first.log.
func (l Ledger) AddFailure(f Failure) error {
	file, err := l.create(f.Name())
	if err != nil {
		return err
	}
	_, err = file.WriteString(f.Log)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	f.File, f.Log = file.Name(), ""
	return add(l.file(failures), f)
}

// firstLog ends the name of the log of a failure.
const firstLog = ".first.log"

// create makes a new file. Packages of the same name, or stages, may have tests of the same name.
func (l Ledger) create(name string) (*os.File, error) {
	if err := os.MkdirAll(string(l), 0o755); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		file := l.file(name + firstLog)
		if n > 1 {
			file = l.file(fmt.Sprintf("%s-%d%s", name, n, firstLog))
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Beside is a file or folder that belongs to the failure, such as .second.log.
func (f Failure) Beside(suffix string) string { return strings.TrimSuffix(f.File, firstLog) + suffix }

// Name is the failure as people look for it.
func (f Failure) Name() string {
	switch {
	case f.Package == "":
		return "gotest"
	case f.Kind == events.Broken:
		return last(f.Package)
	case f.Kind == events.Unfinished:
		return last(f.Package) + ".unfinished"
	}
	return last(f.Package) + "." + f.Tests[0]
}

// last is the name of a package; that of a folder which is none may be a dot.
func last(pkg string) string { return filepath.Base(filepath.Join("/", pkg)) }

func (l Ledger) file(name string) string { return filepath.Join(string(l), name) }

// add adds values to a file by one write, so that other programs may do so too.
func add[T any](name string, values ...T) (err error) {
	if len(values) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, v := range values {
		if err := json.NewEncoder(&b).Encode(v); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(b.Bytes())
	return err
}

// read reads what add wrote. Without the file there is nothing.
func read[T any](name string) (values []T, err error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values = append(values, v)
	}
	return values, nil
}
