package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/etcd/origin"
	"spore/services/kubernetes/etcd/restore"
)

// Forget gives up what this master's etcd has, and has it join the others: after they were restored, their history is
// another one, and the two cannot be one. What is given up is renamed and kept. It refuses where no other master
// answers for a quorum, and where this master is one of that quorum.
func Forget(ctx context.Context, m *master.Machine, out io.Writer, yes bool) error {
	place := restore.Place{Root: m.Root}
	end, err := place.Begin()
	if err != nil {
		return err
	}
	defer end()
	c, n, err := m.Master()
	if err != nil {
		return err
	}
	if restore.Pending(m.Root) {
		return errors.New("a restore is under way; it goes on at the next start of etcd")
	}
	found, err := look(ctx, m, c, n)
	if err != nil {
		return err
	}
	if err := found.forgettable(); err != nil {
		return err
	}
	kept := place.Former(time.Now())
	if _, err := os.Lstat(m.Root.At(origin.Data)); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(out, "there is no data in %s: this master joins by itself\n", origin.Data)
		if !yes {
			return nil
		}
		// An order before this one may have been cut off.
		return startAnyway(ctx, m, func() {}, nil)
	}
	fmt.Fprintf(out, "%s gives up its data of etcd, which is kept in %s, and joins %s and the others\n", n.Name, kept, found.quorum)
	if !yes {
		return errors.New("nothing was changed; if that is what you want, say the same with --yes")
	}
	ended, err := stopUnits(ctx, m)
	if err != nil {
		return err
	}
	// Whatever ends it, etcd runs again.
	if err := place.SetAside(kept); err != nil {
		return startAnyway(ctx, m, ended, err)
	}
	// Not waited for: it joins when the others let it.
	if err := startAnyway(ctx, m, ended, nil); err != nil {
		return err
	}
	fmt.Fprintln(out, "etcd is started without its former data, and joins the others")
	return nil
}

// forgettable says why the data of a master is not given up.
func (f found) forgettable() error {
	switch {
	case f.quorum == "":
		return errors.New("no master answers for a quorum of etcd, so this data may be the last; restore on one master first")
	case f.serves:
		return errors.New("this master's etcd is one of the quorum that serves, and has nothing to give up")
	}
	return nil
}
