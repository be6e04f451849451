package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"spore/wire/nodeapi"
)

// Peers asks other masters.
type Peers interface {
	// Get asks a master for a path of its node API, and returns the body of the answer, whose status was 200.
	Get(ctx context.Context, node, path string) (io.ReadCloser, error)
}

// ListOf asks a master for what it has.
func ListOf(ctx context.Context, p Peers, node string) ([]Entry, error) {
	body, err := p.Get(ctx, node, nodeapi.SnapshotsPath)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its snapshots: %w", node, err)
	}
	defer body.Close()
	list, err := nodeapi.ReadSnapshots(body)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its snapshots: %w", node, err)
	}
	return list, nil
}

// Get gets a snapshot from a master and keeps it. Call it with the lock.
func (d Dir) Get(ctx context.Context, p Peers, node string, e Entry, now time.Time) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("get snapshot %s of %s: %w", e.Name, node, err)
		}
	}()
	if _, err := d.Room(uint64(e.Size), e.Name.Taken, now); err != nil {
		return err
	}
	body, err := p.Get(ctx, node, nodeapi.SnapshotsPath+"/"+e.Name.String())
	if err != nil {
		return err
	}
	defer body.Close()
	draft, err := d.Draft()
	if err != nil {
		return err
	}
	defer draft.Discard()
	n, err := io.Copy(draft, io.LimitReader(body, e.Size+1))
	if err != nil {
		return err
	}
	if n != e.Size {
		return fmt.Errorf("it has not the %d bytes that were listed", e.Size)
	}
	return draft.Commit(e.Name)
}

// Gather gets from other masters what is to be kept and is not there. It returns what it got; what could not be had is in the
// error, and keeps nothing else from being got. Call it with the lock.
func (d Dir) Gather(ctx context.Context, p Peers, nodes []string, k Keep, now time.Time) (got []Name, err error) {
	have, err := d.List()
	if err != nil {
		return nil, err
	}
	all, there := have, map[string]bool{}
	for _, e := range have {
		there[e.Name.String()] = true
	}
	from := map[string][]string{}
	var errs []error
	for _, node := range nodes {
		list, err := ListOf(ctx, p, node)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, e := range list {
			name := e.Name.String()
			if !there[name] && from[name] == nil {
				all = append(all, e)
			}
			from[name] = append(from[name], node)
		}
	}
	keep, _ := k.Choose(all, now)
	for _, e := range keep {
		name := e.Name.String()
		if there[name] {
			continue
		}
		var problems []error
		for _, node := range from[name] {
			err := d.Get(ctx, p, node, e, now)
			if err == nil {
				problems, got = nil, append(got, e.Name)
				break
			}
			problems = append(problems, err)
		}
		errs = append(errs, problems...)
		if err := errors.Join(problems...); errors.Is(err, ErrNoRoom) {
			break
		}
	}
	return got, errors.Join(errs...)
}
