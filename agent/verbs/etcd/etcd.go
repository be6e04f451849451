// Package etcd is the verbs of etcd, on masters: its members, a snapshot, and what an operator does when a master or
// most of them are lost for good. What they do is in spore-etcd, which images with Kubernetes alone have.
package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/paths"
	"spore/agent/pause"
	"spore/agent/verbs"
)

// program speaks to etcd, and units are what has to be stopped before etcd's data is given up.
const (
	program = "/usr/bin/spore-etcd"
	apiUnit = "kube-apiserver.service"
	unit    = "etcd.service"
	// role is that of masters.
	role = "control-plane"
)

// untouched is what spore-etcd says where it was not told to do what it has told of.
const untouched = "nothing was changed"

// Etcd is the verbs; its Run is verbs.Machine but in tests.
type Etcd struct{ Run verbs.Programs }

// master refuses on a node that is none.
func master(r *verbs.Run) error {
	if !slices.Contains(r.Node.Roles, role) {
		return fmt.Errorf("%s is no master (control-plane), and has no etcd; masters are %s", r.Node.Name,
			strings.Join(r.Cluster.Members[role], ", "))
	}
	if _, err := os.Stat(r.Machine.Root.At(program)); errors.Is(err, fs.ErrNotExist) {
		return errors.New("this image has no Kubernetes, and so no etcd")
	}
	return nil
}

// Members answers with who the members are, as spore-etcd shows them.
func (e Etcd) Members(ctx context.Context, r *verbs.Run) (string, error) {
	if err := master(r); err != nil {
		return "", err
	}
	out, err := verbs.Output(e.Run(ctx, r.Machine.Root.At(program), "show", "--json"))
	if err != nil {
		return "", err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(out, &list); err != nil {
		return "", fmt.Errorf("the members are malformed: %w", err)
	}
	if err := r.Result(list); err != nil {
		return "", err
	}
	return fmt.Sprintf("etcd has %d members", len(list)), nil
}

// Snapshot saves etcd now.
func (e Etcd) Snapshot(ctx context.Context, r *verbs.Run) (string, error) {
	if err := master(r); err != nil {
		return "", err
	}
	if r.Order.DryRun {
		return "a snapshot would be taken", nil
	}
	return r.Follow(e.Run(ctx, r.Machine.Root.At(program), "snapshot", "take"))
}

// Remove takes a member out of etcd that is lost for good.
func (e Etcd) Remove(ctx context.Context, r *verbs.Run) (string, error) {
	name := r.Argument("member", "")
	return e.destroy(ctx, r, name, []string{"remove", name})
}

// Restore makes a new etcd of this master alone, from the newest snapshot of all masters or from one that the operator
// has brought.
func (e Etcd) Restore(ctx context.Context, r *verbs.Run) (string, error) {
	args := []string{"restore"}
	if name := r.Argument("from", ""); name != "" {
		file := filepath.Join(r.Machine.Root.At(paths.BroughtSnapshot), name)
		if st, err := os.Lstat(file); err != nil || !st.Mode().IsRegular() {
			return "", fmt.Errorf("%s was not brought to %s", name, r.Node.Name)
		}
		args = append(args, "--from", file)
	}
	if r.Order.Force != "" {
		args = append(args, "--give-up-quorum")
	}
	return e.destroy(ctx, r, r.Node.Name, args)
}

// Forget gives up what this master has of an etcd that was restored elsewhere.
func (e Etcd) Forget(ctx context.Context, r *verbs.Run) (string, error) {
	return e.destroy(ctx, r, r.Node.Name, []string{"forget"})
}

// Stop stops etcd and the API server of this master until the next start of the machine, or of the units: before a
// quorum is given up whose data is worth nothing.
func (e Etcd) Stop(ctx context.Context, r *verbs.Run) (string, error) {
	if err := confirmed(r, r.Node.Name); err != nil {
		return "", err
	}
	if r.Order.Force == "" {
		return "", errors.New("etcd of a master is stopped to give up its quorum alone; say --force etcd")
	}
	if r.Order.DryRun {
		return "etcd and the API server of " + r.Node.Name + " would be stopped", nil
	}
	// What an order before this one had stopped for a while, and was killed, does not start again behind this one.
	if err := pause.Forget(r.Machine.Root, apiUnit, unit); err != nil {
		return "", err
	}
	if _, err := r.Follow(e.Run(ctx, "systemctl", "stop", apiUnit, unit)); err != nil {
		return "", err
	}
	return "etcd and the API server are stopped until the machine, or etcd.service, is started again", nil
}

// destroy has spore-etcd do what cannot be undone, or say what it would do.
func (e Etcd) destroy(ctx context.Context, r *verbs.Run, what string, args []string) (string, error) {
	if err := confirmed(r, what); err != nil {
		return "", err
	}
	if !r.Order.DryRun {
		args = append(args, "--yes")
	}
	done, err := r.Follow(e.Run(ctx, r.Machine.Root.At(program), args...))
	if r.Order.DryRun && err != nil && strings.Contains(err.Error(), untouched) { // It was not told to do it.
		return untouched, nil
	}
	if err != nil {
		return "", err
	}
	return done, nil
}

// confirmed tells whether an order repeats what it is about, on a master.
func confirmed(r *verbs.Run, what string) error {
	if err := master(r); err != nil {
		return err
	}
	switch {
	case r.Order.Force != "" && r.Order.Force != "etcd":
		return fmt.Errorf("this is about the quorum etcd, and not about %.64q", r.Order.Force)
	case !r.Order.DryRun && r.Order.Confirm != what:
		return fmt.Errorf("the order repeats %.64q, and this is about %s; nothing was done", r.Order.Confirm, what)
	}
	return nil
}
