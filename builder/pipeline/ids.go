package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spore/builder/accounts"
	"spore/builder/lock"
	"spore/builder/recipe"
)

// IDs are the ids of users and groups that packages make and that the fixed table of the program does not have.
type IDs struct {
	// All is what accounts.yaml is to hold, New what it does not hold yet.
	All *accounts.Locked `json:"all"`
	New *accounts.Locked `json:"new"`
}

// Changes are the new ids as lines of a lock that are added: users, then groups, each sorted by name.
func (i *IDs) Changes() []lock.Change { return addedIDs(i.New) }

func addedIDs(ids *accounts.Locked) []lock.Change {
	if ids.Empty() {
		return nil
	}
	var out []lock.Change
	for _, list := range []struct {
		kind string
		ids  map[string]uint32
	}{{"user", ids.Users}, {"group", ids.Groups}} {
		for _, name := range slices.Sorted(maps.Keys(list.ids)) {
			id := strconv.FormatUint(uint64(list.ids[name]), 10)
			out = append(out, lock.Change{Change: lock.Added, Kind: list.kind, Name: name, New: id})
		}
	}
	return out
}

// planIDs replays the scripts of the packages alone, once for each set of packages, to learn which accounts they make.
func (b *build) planIDs(ctx context.Context) (*IDs, error) {
	decided, err := json.Marshal([]any{b.decisions(), b.Config.Image.Debconf})
	if err != nil {
		return nil, err
	}
	locked, err := b.lockedIDs()
	if err != nil {
		return nil, err
	}
	in := []string{string(decided), locked, strings.Join(b.programNames(), " ")}
	for _, p := range b.packages.list {
		in = append(in, p.Name, p.Version, p.SHA256)
	}
	ids, err := memo(b, "ids of accounts", in, func() (IDs, error) { return b.replayIDs(ctx) })
	if err != nil {
		return nil, fmt.Errorf("find the users and groups that packages make: %w", err)
	}
	return &ids, nil
}

func (b *build) replayIDs(ctx context.Context) (IDs, error) {
	opened, err := b.openPacks(ctx)
	if err != nil {
		return IDs{}, err
	}
	defer closePacks(opened)
	step := b.Progress.Step("accounts")
	var packages []recipe.Package
	for _, p := range opened {
		packages = append(packages, p.Package)
	}
	db, err := recipe.Accounts(packages, recipe.Options{
		Scripts: b.decisions(), Debconf: b.Config.Image.Debconf, Programs: b.programNames(), Locked: b.Accounts,
	})
	if err != nil {
		return IDs{}, err
	}
	step.Done()
	return IDs{All: db.All(), New: db.Fresh()}, nil
}

func (b *build) programNames() []string {
	out := []string{}
	for _, p := range b.programs {
		out = append(out, p.Name)
	}
	return out
}

// lockedIDs is accounts.yaml in its one form, for keys.
func (b *build) lockedIDs() (string, error) {
	if b.Accounts == nil {
		return "", nil
	}
	data, err := b.Accounts.Encode()
	return string(data), err
}

// tellNew says which ids accounts.yaml does not have. A build that is held to a lock takes none.
func (b *build) tellNew(ids *accounts.Locked) error {
	changes := addedIDs(ids)
	if len(changes) == 0 {
		return nil
	}
	if b.Locked != nil {
		return &LockMismatch{changes}
	}
	var list []string
	for _, c := range changes {
		list = append(list, c.Kind+" "+c.Name+" "+c.New)
	}
	b.Progress.Printf("note: new ids: %s; run spore lock and commit %s", strings.Join(list, ", "), accounts.LockedFile)
	return nil
}

// writeIDs writes the accounts.yaml that the image needs, beside it. Where it needs none, that of an earlier build
// goes.
func (b *build) writeIDs(write func(name string, fn func(w io.Writer) error) error) error {
	if b.root.IDs.Empty() {
		err := os.Remove(filepath.Join(b.Out, accounts.LockedFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return write(accounts.LockedFile, func(w io.Writer) error {
		data, err := b.root.IDs.Encode()
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}
