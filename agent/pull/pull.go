// Package pull fetches an update from a folder of static files (`spore push --output DIR`), on a web server or on a
// medium, and hands it to the unit of root that takes updates, as the node's API does. It has no rights but to write
// into the spool of that: whatever a server sends, root takes what the cluster's key has signed.
//
//	update.head        the head as it was signed (package update)
//	pieces/SHA256      an object each
package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/storage/pieces"
	"spore/wire/signedline"
	"spore/wire/update"
)

// Names of files in the folder. What follows Pieces is the SHA-256 of an object.
const (
	Head   = "update.head"
	Pieces = "pieces/"
)

// ahead is how many objects are fetched at once.
const ahead = 8

// Run fetches an update, has it taken, and says what became of it.
func Run(ctx context.Context, m *node.Machine, from string, wish slot.Wish, out io.Writer) error {
	source, err := Of(from)
	if err != nil {
		return err
	}
	c, err := m.Part.Cluster()
	if err != nil {
		return err
	}
	spool := m.Root.At(paths.Push)
	if err := becomeOwner(spool); err != nil {
		return err
	}
	wish.By, wish.Pull = "the node itself, from "+from, true
	a, err := fetch(ctx, source, c.SigningKeys, wish, slot.Spool(spool).Send, m.Say)
	switch {
	case err != nil:
		return err
	case a.Error != "":
		return errors.New(a.Error)
	}
	fmt.Fprintln(out, a.Text())
	return nil
}

// becomeOwner gives up all rights of root for those of the owner of the spool, before anything from outside is read.
func becomeOwner(spool string) error {
	if os.Getuid() != 0 {
		return nil
	}
	info, err := os.Lstat(spool)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s: the node takes updates when its API runs (spore-api.service)", spool)
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return fmt.Errorf("%s is not a directory", spool)
	}
	err = syscall.Setgroups(nil)
	if err == nil {
		err = syscall.Setgid(int(owner.Gid))
	}
	if err == nil {
		err = syscall.Setuid(int(owner.Uid))
	}
	if err != nil {
		return fmt.Errorf("give up the rights of root: %w", err)
	}
	return nil
}

// send brings a message to whoever takes it.
type send func(ctx context.Context, message io.Reader, wish slot.Wish) (*update.Answer, error)

// fetch sends the update of a folder.
func fetch(
	ctx context.Context, source Source, signingKeys []string, wish slot.Wish, send send, say func(string),
) (update.Answer, error) {
	head, err := source.Read(ctx, Head, update.MaxHead+signedline.Max)
	if err != nil {
		return update.Answer{}, fmt.Errorf("read the head of the update: %w", err)
	}
	msg, err := slot.OpenMessage(bytes.NewReader(head), signingKeys)
	if err != nil {
		return update.Answer{}, fmt.Errorf("the head of the update: %w", err)
	}
	return deliver(ctx, head, msg.Head, &direct{source}, wish, send, say)
}

// objects are where the pieces and indexes of an update come from.
type objects interface {
	// Get returns an object whose hash was compared.
	Get(ctx context.Context, sum pieces.Sum) ([]byte, error)
	// Expect is told which objects the node lacks, before it is asked for them.
	Expect(ctx context.Context, lacks []pieces.Sum)
}

// deliver sends an update to the node, whose head was read.
func deliver(
	ctx context.Context, head []byte, h update.Head, from objects, wish slot.Wish, send send, say func(string),
) (update.Answer, error) {
	f := &fetcher{from: from, there: map[pieces.Sum][]byte{}}
	if wish.DryRun {
		return f.rehearse(ctx, head, h, wish, send)
	}
	return update.Transfer{
		Head: head, Object: f.object,
		Send: func(ctx context.Context, message io.Reader) (update.Answer, error) {
			a, err := send(ctx, message, wish)
			if err != nil {
				return update.Answer{}, err
			}
			if a.Lacks != nil {
				f.expect(ctx, a.Lacks.Objects)
			}
			return *a, nil
		},
		Progress: func(l update.Lack, sent int64) {
			say(fmt.Sprintf("%s: the node lacks %d pieces of %d KiB; %d KiB are "+
				"fetched", h, l.Count, l.Bytes>>10, sent>>10))
		},
	}.Run(ctx)
}

// rehearse sends head and indexes alone.
func (f *fetcher) rehearse(
	ctx context.Context, head []byte, h update.Head, wish slot.Wish, send send,
) (update.Answer, error) {
	message := bytes.Clone(head)
	for _, b := range []update.Blob{h.Boot, h.Root.Index} {
		sum, err := pieces.ParseSum(b.SHA256)
		if err != nil {
			return update.Answer{}, err
		}
		index, err := f.object(ctx, sum)
		if err != nil {
			return update.Answer{}, fmt.Errorf("an index of the update: %w", err)
		}
		message = update.AppendObject(message, index)
	}
	a, err := send(ctx, bytes.NewReader(message), wish)
	if err != nil {
		return update.Answer{}, err
	}
	return *a, nil
}

// fetcher fetches objects, some of them before they are asked for.
type fetcher struct {
	from objects
	// next are the objects that will be asked for, in this order; there are those of them that came.
	next  []pieces.Sum
	there map[pieces.Sum][]byte
}

// expect says what will be asked for.
func (f *fetcher) expect(ctx context.Context, objects []string) {
	f.next = f.next[:0]
	clear(f.there)
	for _, text := range objects {
		if sum, err := pieces.ParseSum(text); err == nil {
			f.next = append(f.next, sum)
		}
	}
	f.from.Expect(ctx, f.next)
}

// object returns an object, and fetches those behind it along with it.
func (f *fetcher) object(ctx context.Context, sum pieces.Sum) ([]byte, error) {
	if content, ok := f.there[sum]; ok {
		delete(f.there, sum)
		return content, nil
	}
	for len(f.next) > 0 && f.next[0] != sum {
		f.next = f.next[1:]
	}
	batch := []pieces.Sum{sum}
	if len(f.next) > 0 {
		batch = f.next[:min(ahead, len(f.next))]
		f.next = f.next[len(batch):]
	}
	contents, errs := make([][]byte, len(batch)), make([]error, len(batch))
	var g sync.WaitGroup
	for i, s := range batch {
		g.Go(func() { contents[i], errs[i] = f.from.Get(ctx, s) })
	}
	g.Wait()
	for i, s := range batch[1:] {
		if errs[i+1] == nil { // Else it is fetched again when it is asked for.
			f.there[s] = contents[i+1]
		}
	}
	return contents[0], errs[0]
}

// direct has all objects from one source.
type direct struct{ source Source }

// Expect implements objects.
func (*direct) Expect(context.Context, []pieces.Sum) {}

// Get implements objects.
func (d *direct) Get(ctx context.Context, sum pieces.Sum) ([]byte, error) {
	content, err := d.source.Read(ctx, Pieces+sum.String(), pieces.MaxSize)
	if err != nil {
		return nil, err
	}
	if pieces.SumOf(content) != sum {
		return nil, fmt.Errorf("%s%s has other content than its name says: it is damaged; make the folder again "+
			"(`spore push --output`)", Pieces, sum)
	}
	return content, nil
}
