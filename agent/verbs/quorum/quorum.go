// Package quorum is the verbs of a quorum's formation: who its members are and for whom this node waits, and forming it
// anew by force when most of its members are lost for good (package formation).
package quorum

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/formation"
	"spore/agent/formation/quorum"
	"spore/agent/pause"
	"spore/agent/verbs"
	"spore/agent/verbs/majority"
	"spore/services"
	"spore/storage/atomicfile"
)

// etcdProgram forms etcd, whose data has an origin of its own.
const etcdProgram = "/usr/bin/spore-etcd"

// Verbs are the verbs; their Run is verbs.Machine but in tests.
type Verbs struct{ Run verbs.Programs }

// Show answers with the members of this node's quorums, as they see each other.
func (v Verbs) Show(ctx context.Context, r *verbs.Run) (string, error) {
	var out bytes.Buffer
	if err := quorum.Show(ctx, r.Machine, &out, true); err != nil {
		return "", err
	}
	if err := r.Result(json.RawMessage(bytes.TrimSpace(out.Bytes()))); err != nil {
		return "", err
	}
	return fmt.Sprintf("a member of %d quorums", len(quorum.Of(r.Cluster, r.Node))), nil
}

// Form forms a quorum anew by force, of this node and of those others that are empty. The order names each member whose
// data is given up; that of this node is renamed and kept.
func (v Verbs) Form(ctx context.Context, r *verbs.Run) (string, error) {
	name := r.Argument("quorum", "")
	s, found := formation.Lookup(services.Of(r.Cluster), name)
	if !found || !slices.Contains(s.Initial(r.Cluster), r.Node.Name) {
		return "", fmt.Errorf("%s is no member of a quorum %.64q", r.Node.Name, name)
	}
	if r.Order.DryRun {
		return v.view(ctx, r, s)
	}
	if r.Order.Confirm != name {
		return "", fmt.Errorf("the order repeats %.64q, and this is about %s; nothing was done", r.Order.Confirm, name)
	}
	var lose []string
	if text := r.Argument("lose", ""); text != "" {
		lose = strings.Split(text, ",")
	}
	if name == "etcd" {
		args := []string{"bootstrap", "--force"}
		if len(lose) > 0 {
			args = append(args, "--lose", strings.Join(lose, ","))
		}
		return r.Follow(v.Run(ctx, r.Machine.Root.At(etcdProgram), args...))
	}
	forced, err := quorum.MayForce(ctx, r.Machine, name, lose)
	if err != nil {
		return "", err
	}
	// Where an order was cut off after it was noted, what lies there is none of the former data.
	kept, err := v.begin(ctx, r, s, !forced && slices.Contains(lose, r.Node.Name), func() error {
		err := quorum.Force(ctx, r.Machine, io.Discard, name, lose)
		if err == nil {
			return nil
		}
		// Where it was noted all the same, as when its directory cannot be synced, data that is put back would be cleared.
		if noted, _ := quorum.MayForce(ctx, r.Machine, name, lose); noted {
			return r.Say("%v", err)
		}
		return err
	})
	return name + " is formed anew; the other members join" + kept, err
}

// Forget gives up what this member of a quorum has, which is renamed and kept, and has it join the others: after they
// were formed anew, or restored. It refuses where those are no majority that serves.
func (v Verbs) Forget(ctx context.Context, r *verbs.Run) (string, error) {
	name := r.Argument("quorum", "")
	s, found := formation.Lookup(services.Of(r.Cluster), name)
	if !found || !slices.Contains(s.Initial(r.Cluster), r.Node.Name) {
		return "", fmt.Errorf("%s is no member of a quorum %.64q", r.Node.Name, name)
	}
	if name == "etcd" {
		return "", errors.New("for etcd there is spore etcd forget, which asks the others first")
	}
	back, err := majority.Guard(ctx, r, majority.Absence{
		What: "giving up the data of " + name, Concerns: func(q formation.Service) bool { return q.Name == name },
	})
	if err != nil {
		return "", err
	}
	defer back()
	if r.Order.DryRun {
		return fmt.Sprintf("the data of %s would be renamed, and %s started without it", name, s.Unit), nil
	}
	if r.Order.Confirm != r.Node.Name {
		return "", fmt.Errorf("the order repeats %.64q, and this is about %s; nothing was done", r.Order.Confirm, r.Node.Name)
	}
	kept, err := v.begin(ctx, r, s, true, func() error { return nil })
	return name + " of " + r.Node.Name + " joins the others" + kept, err
}

// view tells how the members are, of whose data some is given up.
func (v Verbs) view(ctx context.Context, r *verbs.Run, s formation.Service) (string, error) {
	members, err := formation.View(ctx, quorum.Options(r.Machine, r.Cluster, r.Node, s))
	if err != nil {
		return "", err
	}
	var lost []string
	for _, m := range members {
		if err := r.Say("%s %s", m.Name, m); err != nil {
			return "", err
		}
		if m.State != formation.Empty {
			lost = append(lost, m.Name)
		}
	}
	if len(lost) == 0 {
		return s.Name + " would be formed by members that are all empty, which they do by themselves", nil
	}
	return "nothing was changed; what is given up has to be named: --lose " + strings.Join(lost, ","), nil
}

// begin has the service of this node start anew, without its data where lose says so, and tells where that is kept.
// then is done while the service stands still, after the data was put aside: cut off before it, the member is one that
// lost its data, and the same order completes it; cut off after it, the next start of the service does.
func (v Verbs) begin(ctx context.Context, r *verbs.Run, s formation.Service, lose bool, then func() error) (string, error) {
	started, err := pause.Units(r.Machine.Root, s.Unit)
	if err != nil {
		return "", err
	}
	start := func(ctx context.Context) error {
		// Not waited for: it is active when the others are there.
		_, err := r.Follow(v.Run(ctx, "systemctl", "start", "--no-block", s.Unit))
		if err == nil {
			started()
		}
		return err
	}
	done := ""
	err = func() error {
		if _, err := r.Follow(v.Run(ctx, "systemctl", "stop", s.Unit)); err != nil {
			return err
		}
		if !lose {
			return then()
		}
		// Where it stays, the start of Kafka refuses it, and that of a monitor clears it.
		dir := r.Machine.Root.At(strings.ReplaceAll(s.Data, "NODE", r.Node.Name))
		kept, err := putAside(dir)
		if kept != "" {
			done = "; what this node had is kept in " + kept
		}
		if err == nil {
			err = then()
		}
		if err != nil && kept != "" {
			err = errors.Join(err, putBack(kept, dir))
		}
		return err
	}()
	if err != nil { // The service runs again, as it was.
		return "", errors.Join(err, start(context.WithoutCancel(ctx)))
	}
	return done, start(ctx)
}

// putBack renames what putAside has renamed.
func putBack(kept, dir string) error {
	if err := os.Rename(kept, dir); err != nil {
		return fmt.Errorf("put the data back: %w", err)
	}
	return atomicfile.SyncDir(filepath.Dir(dir))
}

// putAside renames a directory to the first free name; "" where there is none.
func putAside(dir string) (string, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for n := 1; n < 100; n++ {
		kept := dir + ".given-up"
		if n > 1 {
			kept = fmt.Sprintf("%s.given-up-%d", dir, n)
		}
		if _, err := os.Lstat(kept); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Rename(dir, kept); err != nil {
			return "", fmt.Errorf("put the data aside: %w", err)
		}
		return kept, atomicfile.SyncDir(filepath.Dir(dir))
	}
	return "", fmt.Errorf("put the data aside: there are too many beside %s; remove what is not needed", dir)
}
