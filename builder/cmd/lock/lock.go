// Package lock is the command `spore lock`.
package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/accounts"
	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/folder"
	"spore/builder/cmd/inputs"
	"spore/builder/lock"
	"spore/builder/pipeline"
	"spore/builder/store"
	"spore/storage/atomicfile"
)

// States of a lock, as --json has them.
const (
	made     = "made"
	updated  = "updated"
	upToDate = "up to date"
	outdated = "out of date"
	missing  = "missing"
)

// Result is what --json prints.
type Result struct {
	// Lock is the path of the file.
	Lock string `json:"lock"`
	// State is "made", "updated", "up to date", "out of date" or "missing".
	State string `json:"state"`
	// Accounts is the path of accounts.yaml, AccountsState what became of it, as State says it; both are empty where the
	// image needs none.
	Accounts      string `json:"accounts,omitempty"`
	AccountsState string `json:"accountsState,omitempty"`
	// Changes are those of the lock, and behind them the new ids of users and groups.
	Changes  []lock.Change `json:"changes"`
	Packages int           `json:"packages"`
	Programs int           `json:"programs"`
	Kernel   string        `json:"kernel"`
}

type flags struct {
	inputs              inputs.Flags
	update, check, json bool
}

// Command returns the command. version is the version of spore itself.
func Command(version string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "lock [DIR]",
		Short: "Pin the version and hash of every package and program in image.lock",
		Long: `Lock finds out what an image of the configuration in DIR (configs when left out) would be made of now: every package
with version and hash, the kernel, every program with its pins, the container images, and spore itself. It writes that
to DIR/image.lock when there is no such file; commit it. "spore build --locked" then takes exactly what the file names.

When the file exists, lock prints what would change and leaves the file as it is; --update writes the changes.

Where packages make users or groups that spore does not know, lock writes their ids to DIR/accounts.yaml; commit it too.
It keeps the ids of packages that are gone.

Nothing is compiled. Packages that the cache has never seen are downloaded, because their scripts say which users and
groups there are.`,
		Example: "  spore lock configs\n  spore lock configs --update\n  spore lock configs --check --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, inputs.Dir(args), version, f)
		},
	}
	cmd.Flags().BoolVar(&f.update, "update", false, "write what changed")
	cmd.Flags().BoolVar(&f.check, "check", false, "write nothing, and fail where there is something to write")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result as JSON")
	f.inputs.Register(cmd)
	return cmd
}

func run(cmd *cobra.Command, dir, version string, f flags) (err error) {
	if f.update && f.check {
		return exit.Usage(errors.New("--check writes nothing, and --update writes: leave one of them out"))
	}
	// The mirror is asked in any case: what is newest is the question.
	o, err := f.inputs.Load(cmd, inputs.Request{Dir: dir, Version: version}, time.Now())
	if o.Store != nil {
		defer func() { err = errors.Join(err, cachefolder.Settle(o.Store, o.Progress)) }()
	}
	if errors.Is(err, folder.ErrConfig) {
		return fmt.Errorf("%w; nothing was locked", err)
	}
	if err != nil {
		return err
	}
	name := filepath.Join(dir, lock.Name)
	old, err := lock.Read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	timeWanted := o.BuildTime
	now, ids, err := pipeline.Plan(cmd.Context(), o)
	if errors.Is(err, store.ErrDamaged) {
		o.Progress.Printf("%v; it is made again", err)
		now, ids, err = pipeline.Plan(cmd.Context(), o)
	}
	if err != nil {
		return err
	}
	if err := o.Hashes.Save(); err != nil {
		return err
	}
	r := Result{
		Lock: name, Changes: []lock.Change{}, Packages: len(now.Packages), Programs: len(now.Programs), Kernel: now.Kernel,
	}
	r.State = state(old, now, timeWanted, f)
	if old != nil && r.State != upToDate {
		r.Changes = lock.Diff(old, now)
	}
	r.addAccounts(dir, ids, o.Accounts != nil, f)
	if err := write(r, now, ids); err != nil {
		return err
	}
	if err := show(cmd.OutOrStdout(), r, f.json); err != nil {
		return err
	}
	return r.checked(f)
}

// addAccounts says what becomes of accounts.yaml; there tells whether the folder has one.
func (r *Result) addAccounts(dir string, ids *pipeline.IDs, there bool, f flags) {
	if !there && ids.New.Empty() {
		return
	}
	r.Accounts = filepath.Join(dir, accounts.LockedFile)
	r.AccountsState = accountsState(r.State, there, !ids.New.Empty(), f)
	r.Changes = append(r.Changes, ids.Changes()...)
}

// accountsState is what becomes of accounts.yaml beside a lock. A lock that is written has all of its ids there,
// because a build that is held to it takes no new one.
func accountsState(lockState string, there, fresh bool, f flags) string {
	switch {
	case !fresh:
		return upToDate
	case f.check && there:
		return outdated
	case f.check:
		return missing
	case !there:
		return made
	case f.update, lockState == made:
		return updated
	}
	return outdated
}

// write writes what is to be written, accounts.yaml first: it goes without the lock, and the lock not without it.
func write(r Result, now *lock.Lock, ids *pipeline.IDs) error {
	if r.AccountsState == made || r.AccountsState == updated {
		data, err := ids.All.Encode()
		if err != nil {
			return err
		}
		if err := atomicfile.Replace(r.Accounts, data, 0o644, atomicfile.Whole); err != nil {
			return err
		}
	}
	if r.State == made || r.State == updated {
		return now.Write(r.Lock)
	}
	return nil
}

// checked is the error of --check for what is to be written.
func (r *Result) checked(f flags) error {
	switch {
	case !f.check:
		return nil
	case r.State != upToDate:
		return fmt.Errorf("%s is %s", r.Lock, r.State)
	case r.AccountsState != "" && r.AccountsState != upToDate:
		return fmt.Errorf("%s is %s", r.Accounts, r.AccountsState)
	}
	return nil
}

// state is what becomes of a lock; old is nil where there is none. Dates alone are no change: archives are signed anew several
// times a day. A time that was asked for is one.
func state(old, now *lock.Lock, timeWanted int64, f flags) string {
	switch {
	case old == nil && f.check:
		return missing
	case old == nil:
		return made
	case lock.OnlyDates(lock.Diff(old, now)) && (timeWanted == 0 || timeWanted == old.BuildTime):
		return upToDate
	case f.update:
		return updated
	}
	return outdated
}

func show(w io.Writer, r Result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	for _, c := range r.Changes {
		fmt.Fprintln(w, c)
	}
	switch r.AccountsState {
	case made, updated:
		fmt.Fprintf(w, "%s %s; commit it\n", r.AccountsState, r.Accounts)
	case outdated:
		fmt.Fprintf(w, "%s was left as it is; spore lock --update writes these changes\n", r.Accounts)
	case missing:
		fmt.Fprintf(w, "%s is %s\n", r.Accounts, r.AccountsState)
	}
	switch r.State {
	case made, updated:
		fmt.Fprintf(w, "%s %s: %d packages, %d programs, kernel %s\n", r.State, r.Lock, r.Packages, r.Programs, r.Kernel)
	case outdated:
		fmt.Fprintf(w, "%s was left as it is; spore lock --update writes these changes\n", r.Lock)
	default:
		fmt.Fprintf(w, "%s is %s\n", r.Lock, r.State)
	}
	return nil
}
