// Package updatetest is a node for tests of whoever sends updates: it takes messages, says what it lacks, puts a root
// together from what it runs and what came, makes its hash tree, and starts the new system when it is told to. It
// writes to files in a folder; it has no disk, no firmware and no boot loader.
package updatetest

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"spore/storage/pieces"
	"spore/storage/verity"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// System is what a node runs.
type System struct {
	RootHash, ClusterHash string
	Serial                uint64
	// Root is the file of the root, and Index that of its pieces.
	Root  string
	Index pieces.Index
	// UKI and Part are the unified kernel image and the cluster part, and Boot the index of both.
	UKI, Part, Loader []byte
	Boot              pieces.Index
	// Versions are those of the services that keep data.
	Versions map[string]string
}

// Node is a node. Its fields may be set before its first message.
type Node struct {
	// Cluster is the id of its cluster, ClusterName its name.
	Name, Cluster, ClusterName string
	Keys                       []ed25519.PublicKey
	// Dir is a folder of its own.
	Dir string
	// Break is asked with each message's number, from 1, before the answer: an error is a connection that broke. What
	// came until then is kept. May be nil.
	Break func(message int) error
	// Asked is how many objects it asks for at once; 0 is update.MaxAsked.
	Asked int
	// KeepsWayBack refuses an update that would take the way back.
	KeepsWayBack bool

	mu             sync.Mutex
	runs           System
	before, staged *System
	messages       int
	received       int64
	// taken are objects that came, in the order in which they came.
	taken []pieces.Sum
}

// Start has the node run a system.
func (n *Node) Start(s System) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs = s
}

// Restart starts what is staged.
func (n *Node) Restart() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restart()
}

func (n *Node) restart() {
	if n.staged != nil {
		was := n.runs
		n.before, n.runs, n.staged = &was, *n.staged, nil
	}
}

// Runs is what it runs.
func (n *Node) Runs() System {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runs
}

// Received is how many messages came, and how many bytes of objects.
func (n *Node) Received() (messages int, bytes int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.messages, n.received
}

// Taken are the objects that came, in the order in which they came.
func (n *Node) Taken() []pieces.Sum {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.taken)
}

// Status is its status, with what of it whoever sends updates looks at.
func (n *Node) Status() nodeapi.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &nodeapi.Configuration{RootHash: n.runs.RootHash, ClusterHash: n.runs.ClusterHash, Serial: n.runs.Serial}
	if n.before != nil {
		c.Other = n.before.ClusterHash
		if n.before.RootHash != n.runs.RootHash {
			c.OtherRoot = n.before.RootHash
		}
	}
	if n.staged != nil {
		c.Staged, c.Other = n.staged.ClusterHash, n.staged.ClusterHash
	}
	return nodeapi.Status{Spore: 1, Cluster: n.ClusterName, Node: n.Name, Configuration: c}
}

// Take takes a message. The query is that of the path of updates. A refusal is in the answer; an error is a connection
// that broke.
func (n *Node) Take(message io.Reader, query url.Values) (update.Answer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.messages++
	r := bufio.NewReader(message)
	h, err := update.Read(r, n.Keys)
	if err == nil {
		err = n.fits(h)
	}
	if err == nil {
		err = update.Objects(r, n.keep)
	}
	if err != nil {
		return update.Answer{Node: n.Name, Error: err.Error()}, nil
	}
	if n.Break != nil {
		if err := n.Break(n.messages); err != nil {
			return update.Answer{}, err
		}
	}
	a, err := n.stage(h, query)
	a.Node, a.Serial, a.ClusterHash = n.Name, h.Serial, h.ClusterHash
	if err != nil {
		a.Error = err.Error()
	}
	return a, nil
}

// Back has it start the system before; the query is that of the path.
func (n *Node) Back(query url.Values) update.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.before == nil {
		return update.Answer{Node: n.Name, Error: "there is no system before"}
	}
	if query.Get("dryRun") == "true" {
		return update.Answer{Node: n.Name, ClusterHash: n.before.ClusterHash, DryRun: true}
	}
	was := n.runs
	n.runs, n.before, n.staged = *n.before, &was, nil
	return update.Answer{Node: n.Name, ClusterHash: n.runs.ClusterHash, Reboot: true}
}

func (n *Node) fits(h update.Head) error {
	last := n.runs
	if n.staged != nil {
		last = *n.staged
	}
	switch {
	case !strings.EqualFold(h.Cluster, n.Cluster):
		return fmt.Errorf("the update is of the cluster %s", h.Cluster)
	case !slices.Contains(h.Nodes, n.Name):
		return fmt.Errorf("the update has no node %s", n.Name)
	case h.Serial < last.Serial && !h.Force:
		return fmt.Errorf("the update is older (%d) than the last one that this node took (%d)", h.Serial, last.Serial)
	}
	return nil
}

// keep keeps an object.
func (n *Node) keep(content []byte) error {
	sum := pieces.Sum(sha256.Sum256(content))
	n.received += int64(len(content))
	n.taken = append(n.taken, sum)
	if err := os.MkdirAll(filepath.Join(n.Dir, "objects"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(n.object(sum), content, 0o600)
}

func (n *Node) object(sum pieces.Sum) string { return filepath.Join(n.Dir, "objects", sum.String()) }

// stage says what is missing, and puts the system together when nothing is.
func (n *Node) stage(h update.Head, query url.Values) (update.Answer, error) {
	if h.RootHash == n.runs.RootHash && h.ClusterHash == n.runs.ClusterHash {
		n.runs.Serial, n.staged = max(h.Serial, n.runs.Serial), nil
		return update.Answer{Unchanged: true}, nil
	}
	a := update.Answer{Change: &update.Change{
		Root: h.RootHash != n.runs.RootHash, UKI: true, From: n.runs.Versions, To: h.Root.Versions,
	}}
	if n.KeepsWayBack && query.Get("giveUpWayBack") != "true" {
		return a, errors.New("the node would lose its way back to the root before: say --give-up-way-back when that is not needed any more")
	}
	root, boot, l, err := n.lacks(h)
	if err != nil {
		return a, err
	}
	a.DryRun = query.Get("dryRun") == "true" && root != nil
	if l.Count > 0 {
		a.Lacks = l
	}
	if a.DryRun || l.Count > 0 {
		return a, nil
	}
	s, err := n.assemble(h, root, boot)
	if err != nil {
		return a, err
	}
	n.staged, a.Entry = s, "spore_"+h.UKI.SHA256[:8]+"+3.efi"
	if query.Get("reboot") == "true" {
		a.Reboot = true
		n.restart()
	}
	return a, nil
}

// lacks finds out what is missing: the indexes first, and then what is in them.
func (n *Node) lacks(h update.Head) (root, boot pieces.Index, l *update.Lack, err error) {
	l = &update.Lack{}
	most := n.Asked
	if most == 0 {
		most = update.MaxAsked
	}
	missing := func(sum string, size int64) {
		l.Count, l.Bytes = l.Count+1, l.Bytes+size
		if len(l.Objects) < most {
			l.Objects = append(l.Objects, sum)
		}
	}
	index := func(b update.Blob) (pieces.Index, error) {
		sum, err := pieces.ParseSum(b.SHA256)
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(n.object(sum))
		if errors.Is(err, fs.ErrNotExist) {
			missing(b.SHA256, b.Size)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return pieces.Parse(data)
	}
	if root, err = index(h.Root.Index); err != nil {
		return nil, nil, nil, err
	}
	if boot, err = index(h.Boot); err != nil {
		return nil, nil, nil, err
	}
	if l.Count > 0 {
		return nil, nil, l, nil
	}
	seen := map[pieces.Sum]bool{}
	for _, part := range []struct{ wanted, has pieces.Index }{{root, n.runs.Index}, {boot, n.runs.Boot}} {
		has := pieces.NewFinder(part.has)
		for _, p := range part.wanted {
			runs := len(has.Find(p.Sum)) > 0
			if _, err := os.Stat(n.object(p.Sum)); err != nil && !runs && !seen[p.Sum] {
				missing(p.Sum.String(), p.Size)
			}
			seen[p.Sum] = true
		}
	}
	return root, boot, l, nil
}

// assemble puts a system together, and holds it to the head.
func (n *Node) assemble(h update.Head, root, boot pieces.Index) (*System, error) {
	s := &System{
		RootHash: h.RootHash, ClusterHash: h.ClusterHash, Serial: h.Serial, Index: root, Boot: boot, Versions: h.Root.Versions,
		Root: filepath.Join(n.Dir, "root-"+h.RootHash[:16]),
	}
	if err := n.writeRoot(h, s); err != nil {
		return nil, fmt.Errorf("the root: %w", err)
	}
	var both bytes.Buffer
	running := slices.Concat(n.runs.UKI, n.runs.Part, n.runs.Loader)
	if err := n.copyPieces(&both, boot, bytes.NewReader(running), n.runs.Boot); err != nil {
		return nil, err
	}
	if want := h.UKI.Size + h.Part.Size + h.Loader.Size; int64(both.Len()) != want {
		return nil, fmt.Errorf("UKI, cluster part and boot loader have %d bytes, and the update says %d", both.Len(), want)
	}
	all := both.Bytes()
	s.UKI, s.Part, s.Loader = all[:h.UKI.Size], all[h.UKI.Size:][:h.Part.Size], all[h.UKI.Size+h.Part.Size:]
	for _, c := range []struct {
		content []byte
		want    update.Blob
	}{{s.UKI, h.UKI}, {s.Part, h.Part}, {s.Loader, h.Loader}} {
		if c.want == (update.Blob{}) {
			continue
		}
		if got, err := update.Sum(bytes.NewReader(c.content)); err != nil || got != c.want {
			return nil, fmt.Errorf("it has the hash %s, and the update says %s", got.SHA256, c.want.SHA256)
		}
	}
	return s, nil
}

func (n *Node) writeRoot(h update.Head, s *System) error {
	if s.RootHash == n.runs.RootHash {
		s.Root, s.Index = n.runs.Root, n.runs.Index
		return nil
	}
	old, err := os.Open(n.runs.Root)
	if err != nil {
		return err
	}
	defer old.Close()
	file, err := os.Create(s.Root)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := n.copyPieces(file, s.Index, old, n.runs.Index); err != nil {
		return err
	}
	o := verity.Options{}
	if o.Salt, err = hex.DecodeString(h.Root.Salt); err != nil {
		return err
	}
	if _, err := hex.Decode(o.UUID[:], []byte(h.Root.UUID)); err != nil {
		return err
	}
	hash, _, err := verity.Format(file, h.Root.Size, io.Discard, o)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(hash[:]); got != h.RootHash {
		return fmt.Errorf("it has the root hash %s, and the update says %s", got, h.RootHash)
	}
	return nil
}

// copyPieces writes what an index lists, from what runs or from what came.
func (n *Node) copyPieces(w io.Writer, x pieces.Index, running io.ReaderAt, has pieces.Index) error {
	find := pieces.NewFinder(has)
	for _, p := range x {
		content, err := os.ReadFile(n.object(p.Sum))
		if at := find.Find(p.Sum); err != nil && len(at) > 0 {
			content = make([]byte, p.Size)
			_, err = running.ReadAt(content, find.Offset(int(at[0])))
			if errors.Is(err, io.EOF) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
		if !p.Same(content) {
			return fmt.Errorf("a piece is not what its hash %s says", p.Sum)
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	return nil
}
