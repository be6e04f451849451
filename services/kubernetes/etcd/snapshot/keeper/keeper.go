// Package keeper takes snapshots of etcd on a schedule, keeps them encrypted, and gets those of the other masters.
package keeper

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"filippo.io/age"

	"spore/services/kubernetes/etcd/etcdutl"
	"spore/services/kubernetes/etcd/snapshot"
	"spore/services/kubernetes/etcd/snapshot/sealing"
)

// Times of Run.
const (
	// lookEvery is how often it is looked whether a snapshot is due.
	lookEvery = time.Minute
	// gatherEvery is how often other masters are asked: well within a turn (package snapshot).
	gatherEvery = 3 * time.Minute
	// settle is how long none is taken after the start: everything starts then, and a new cluster has nothing to save.
	settle = 10 * time.Minute
	// sayEvery is how often a problem that stays is said again.
	sayEvery = time.Hour
)

// blockSize is what databases are a multiple of; a hash follows them (etcdutl/snapshot, hasChecksum).
const blockSize = 512

// Etcd is the etcd of this master.
type Etcd interface {
	// Size returns the size of its database in bytes.
	Size(ctx context.Context) (int64, error)
	// Snapshot returns the database with its hash at the end, in which is all that was acknowledged before the call.
	Snapshot(ctx context.Context) (io.ReadCloser, error)
}

// Keeper keeps the snapshots of a master.
type Keeper struct {
	Dir snapshot.Dir
	// Cluster is the id of the cluster, Node this master, Masters lists the names of all, sorted.
	Cluster, Node string
	Masters       []string
	// Every is the time between two snapshots, Keep how many are kept.
	Every time.Duration
	Keep  snapshot.Keep
	// Identity is the key for snapshots.
	Identity *age.X25519Identity
	Etcd     Etcd
	Tool     etcdutl.Tool
	Peers    snapshot.Peers
	Now      func() time.Time
	// Say is told of what was done and of problems, Status, when it changes, of how it is.
	Say, Status func(string)

	notBefore time.Time
	said      string
	saidAt    time.Time
	status    string
}

// Run keeps snapshots until the context ends. Nothing that goes wrong ends it.
func (k *Keeper) Run(ctx context.Context) error {
	k.notBefore = k.Now().Add(settle)
	var gathered time.Time
	for {
		now := k.Now()
		gather := now.Sub(gathered) >= gatherEvery || now.Before(gathered)
		if gather {
			gathered = now
		}
		k.problem(k.Round(ctx, gather))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery):
		}
	}
}

// problem says what went wrong, once until it is something else or has lasted.
func (k *Keeper) problem(err error) {
	k.report(err)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == k.said && k.Now().Sub(k.saidAt) < sayEvery {
		return
	}
	if text != "" {
		k.Say(text)
	} else if k.said != "" {
		k.Say("snapshots are in order again")
	}
	k.said, k.saidAt = text, k.Now()
}

// report tells how it is.
func (k *Keeper) report(problem error) {
	text := "there is no snapshot yet"
	if list, err := k.Dir.List(); err != nil {
		text = err.Error()
	} else if e, ok := snapshot.Newest(list, k.Now()); ok {
		text = fmt.Sprintf("%d snapshots, the last of %s by %s", len(list), e.Name.Taken.UTC().Format(time.RFC3339), e.Name.Node)
	}
	if problem != nil {
		text += "; " + problem.Error()
	}
	if text != k.status {
		k.status = text
		k.Status(text)
	}
}

// Round does once what Run does again and again: get what others have, take a snapshot when one is due, drop what is too
// much.
func (k *Keeper) Round(ctx context.Context, gather bool) error {
	unlock, err := k.Dir.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	if gather {
		others := slices.DeleteFunc(slices.Clone(k.Masters), func(m string) bool { return m == k.Node })
		got, err := k.Dir.Gather(ctx, k.Peers, others, k.Keep, k.Now())
		for _, n := range got {
			k.Say("got snapshot " + n.String())
		}
		errs = append(errs, err)
	}
	list, err := k.Dir.List()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if now := k.Now(); !now.Before(k.notBefore) && snapshot.Due(list, now, k.Every, slices.Index(k.Masters, k.Node)) {
		_, err := k.take(ctx)
		errs = append(errs, err)
	}
	_, err = k.Dir.Prune(k.Keep, k.Now())
	return errors.Join(append(errs, err)...)
}

// Take takes a snapshot now.
func (k *Keeper) Take(ctx context.Context) (snapshot.Name, error) {
	unlock, err := k.Dir.Lock(ctx)
	if err != nil {
		return snapshot.Name{}, err
	}
	defer unlock()
	n, err := k.take(ctx)
	if err != nil {
		return n, err
	}
	_, err = k.Dir.Prune(k.Keep, k.Now())
	return n, err
}

// take saves the database beside the snapshots, has etcdutl check it, encrypts it, reads that back from the disk and opens
// it. The database on its own is never there under a name that lasts.
func (k *Keeper) take(ctx context.Context) (n snapshot.Name, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("take a snapshot of etcd: %w", err)
		}
	}()
	size, err := k.Etcd.Size(ctx)
	if err != nil {
		return n, err
	}
	began := k.Now()
	// The database, and what does not get smaller by compression.
	dropped, err := k.Dir.Room(2*uint64(max(size, 0)), began, began)
	if err != nil {
		return n, err
	}
	for _, d := range dropped {
		k.Say("gave up snapshot " + d.String() + ", since there is little room")
	}
	plain, err := k.Dir.Draft()
	if err != nil {
		return n, err
	}
	defer plain.Discard()
	h, err := k.save(ctx, plain)
	if err != nil {
		return n, err
	}
	h.Taken = began.UTC().Truncate(time.Second)
	sealed, err := k.Dir.Draft()
	if err != nil {
		return n, err
	}
	defer sealed.Discard()
	db, err := plain.Reread()
	if err != nil {
		return n, err
	}
	if err := sealing.Seal(sealed, k.Identity, h, db); err != nil {
		return n, err
	}
	if err := k.opens(sealed); err != nil {
		return n, err
	}
	n = snapshot.Name{Taken: h.Taken, Revision: h.Revision, Node: k.Node, Hash: sealed.Hash()}
	if err := sealed.Commit(n); err != nil {
		return n, err
	}
	k.Say(fmt.Sprintf("took snapshot %s, with %d keys", n, h.Keys))
	return n, nil
}

// save writes the database and tells what it is.
func (k *Keeper) save(ctx context.Context, plain *snapshot.Draft) (h sealing.Header, err error) {
	stream, err := k.Etcd.Snapshot(ctx)
	if err != nil {
		return h, err
	}
	defer stream.Close()
	size, err := io.Copy(plain, stream)
	if err != nil {
		return h, fmt.Errorf("save the database: %w", err)
	}
	sum, err := checkDatabase(plain.Path(), size)
	if err != nil {
		return h, err
	}
	status, err := k.Tool.Status(ctx, plain.Path())
	if err != nil {
		return h, err
	}
	return sealing.Header{
		Cluster: k.Cluster, Node: k.Node, Revision: status.Revision, Keys: status.Keys, Size: size, SHA256: sum,
	}, nil
}

// checkDatabase compares a database with the hash at its end, and returns that of the whole file. What the stream lost in
// its last moments would go unnoticed otherwise: etcd's answer is not complete without the hash.
func checkDatabase(path string, size int64) (string, error) {
	if size <= sha256.Size || size%blockSize != sha256.Size {
		return "", fmt.Errorf("the database that etcd gave out has %d bytes, and no hash at its end", size)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	own, whole := sha256.New(), sha256.New()
	if _, err := io.CopyN(io.MultiWriter(own, whole), f, size-sha256.Size); err != nil {
		return "", fmt.Errorf("read the database back: %w", err)
	}
	tail := make([]byte, sha256.Size)
	if _, err := io.ReadFull(f, tail); err != nil {
		return "", fmt.Errorf("read the database back: %w", err)
	}
	if !bytes.Equal(tail, own.Sum(nil)) {
		return "", errors.New("the database that etcd gave out has not the hash at its end")
	}
	whole.Write(tail)
	return hex.EncodeToString(whole.Sum(nil)), nil
}

// opens reads a sealed snapshot back from the disk.
func (k *Keeper) opens(sealed *snapshot.Draft) error {
	r, err := sealed.Reread()
	if err != nil {
		return err
	}
	_, db, err := sealing.Open(r, k.Identity)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = io.Copy(io.Discard, db)
	return err
}
