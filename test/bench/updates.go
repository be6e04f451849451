package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/builder/image"
	"spore/builder/lock"
	"spore/builder/pipeline"
	"spore/builder/rootfs"
	"spore/builder/size"
	"spore/builder/updateset"
	"spore/storage/pieces"
	"spore/test/oldlock"
	"spore/wire/update"
)

// smallPackages are source packages of which an older version is looked for: the first that the archive has.
var smallPackages = []string{"openssl", "util-linux", "systemd"}

// Goals of an update: so many times what the packages that changed take, and of a small one so many bytes besides.
const (
	packedFactor = 1.2
	packedBeside = 1 << 20
	nodeFactor   = 2
	nodeMemory   = 64 << 20
)

// Update is one row of the table of updates: from an older image to that of today.
type Update struct {
	Image, What string
	// Changed are the packages that are others, with both versions.
	Changed []string
	// Sent are the bytes of objects that a node asked for, with indexes; Indexes and Boot are of that the two
	// indexes, and the pieces of UKI and cluster part.
	Sent, Indexes, Boot int64
	// Packed is what the packages that changed take in the image of today, compressed: their blocks in the root, and
	// the kernel itself in the UKI. Debs is what they have as Debian packages.
	Packed, Debs int64
	// Whole are root, UKI and cluster part of today's image, Root is the root alone.
	Whole, Root int64
	// Limit is the goal for Sent.
	Limit int64
	// Node is what taking the update cost the node, all messages together, and Hash what reading and hashing the root
	// once costs. Both are medians.
	Node, Hash Usage
	Messages   int
}

// Factor is what was sent by what the packages take; not a number where nothing changed.
func (u Update) Factor() float64 {
	if u.Packed == 0 {
		return math.NaN()
	}
	return float64(u.Sent) / float64(u.Packed)
}

// updateCase is an older image: the lock of today with something older in it. A nil older is the image of today,
// built again.
type updateCase struct {
	what  string
	older func(oldlock.Archive, *lock.Lock) (*lock.Lock, error)
	limit func(packed int64) int64
}

func small(packed int64) int64  { return int64(packedFactor*float64(packed)) + packedBeside }
func kernel(packed int64) int64 { return int64(packedFactor * float64(packed)) }

var updateCases = []updateCase{
	{what: "built again, nothing changed", limit: func(int64) int64 { return 0 }},
	{what: "a small package", limit: small, older: func(a oldlock.Archive, l *lock.Lock) (*lock.Lock, error) {
		return a.Source(l, smallPackages...)
	}},
	{what: "the kernel", limit: kernel, older: oldlock.Archive.Kernel},
	{what: "both", limit: small, older: func(a oldlock.Archive, l *lock.Lock) (*lock.Lock, error) {
		l, err := a.Source(l, smallPackages...)
		if err != nil {
			return nil, err
		}
		return a.Kernel(l)
	}},
}

// updates measures the updates of images. The first is also built again; to do that with all programs takes minutes.
func (b *bench) updates(ctx context.Context, images []*ours) (all []Update, err error) {
	cases := updateCases
	for _, o := range images {
		list, err := b.updatesOf(ctx, o, cases)
		if err != nil {
			return nil, err
		}
		all, cases = append(all, list...), updateCases[1:]
	}
	return all, nil
}

// updatesOf measures those of one configuration: it builds the image of today and each older one, and has a node that
// runs the older one take that of today.
func (b *bench) updatesOf(ctx context.Context, o *ours, cases []updateCase) ([]Update, error) {
	p, err := newPublisher(ctx, b, o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	var out []Update
	for _, c := range cases {
		u, err := p.measure(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("update of %s, %s: %w", o.from, c.what, err)
		}
		u.Image = o.from
		b.say("%s, %s: %d KiB sent, packages take %d KiB, image %d MiB; node %.2f CPU-s and %s MiB, hashing %.2f CPU-s",
			o.from, c.what, u.Sent>>10, u.Packed>>10, u.Whole>>20, u.Node.CPU.Seconds(), mebibytes(u.Node.Memory),
			u.Hash.CPU.Seconds())
		out = append(out, u)
	}
	return out, nil
}

// publisher is the operator who sends the image of today.
type publisher struct {
	b   *bench
	o   *ours
	dir string
	// image is that of today, which set makes objects of.
	image   *rootfs.Image
	set     *updateset.Set
	sizes   *size.Report
	lock    *lock.Lock
	archive oldlock.Archive
	key     ed25519.PrivateKey
	serial  uint64
}

// Names of the only node, and of its cluster, in an update.
const (
	updateCluster = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"
	updateNode    = "edge-01"
)

// newPublisher builds the image of today.
func newPublisher(ctx context.Context, b *bench, o *ours) (_ *publisher, err error) {
	p := &publisher{b: b, o: o, dir: filepath.Join(o.dir, "updates")}
	p.key = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := errors.Join(os.RemoveAll(p.dir), os.MkdirAll(p.dir, 0o755)); err != nil {
		return nil, err
	}
	out := filepath.Join(p.dir, "today")
	if _, err := o.build(ctx, o.cache, out, "--format", "disk"); err != nil {
		return nil, err
	}
	if p.lock, err = lock.Read(filepath.Join(out, lock.Name)); err != nil {
		return nil, err
	}
	if p.archive, err = oldlock.Read(ctx, p.lock); err != nil {
		return nil, err
	}
	if p.image, err = rootfs.Open(filepath.Join(out, pipeline.DiskName)); err != nil {
		return nil, err
	}
	if p.sizes, err = size.Of(p.image); err != nil {
		return nil, err
	}
	p.set, err = objectsOf(p.image, filepath.Join(p.dir, "today.part"))
	return p, err
}

func (p *publisher) close() {
	if p.set != nil {
		p.set.Close()
	}
	if p.image != nil {
		p.image.Close()
	}
	os.RemoveAll(p.dir)
}

// objectsOf is what an update to an image is made of. Its cluster part is written to a file.
func objectsOf(i *rootfs.Image, partFile string) (*updateset.Set, error) {
	program, err := programOf(i)
	if err != nil {
		return nil, err
	}
	disk, err := os.Open(i.Cluster.File)
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	part := make([]byte, i.Cluster.Size+i.Cluster.HashSize)
	if _, err := disk.ReadAt(part, i.Cluster.Offset); err != nil {
		return nil, err
	}
	if err := os.WriteFile(partFile, part, 0o644); err != nil {
		return nil, err
	}
	return updateset.Of(updateset.Parts{
		Root: image.Source{Path: i.Root.File, Offset: i.Root.Offset, Size: i.Root.Size},
		Tree: image.Source{Path: i.Root.File, Offset: i.Info.Root.HashOffset}, UKI: program, ClusterFile: partFile,
	})
}

// programOf is the UKI of an image.
func programOf(i *rootfs.Image) ([]byte, error) {
	files, err := i.ESP()
	if err != nil {
		return nil, err
	}
	last := i.Info.UKIs[len(i.Info.UKIs)-1]
	for _, f := range files {
		if f.Path == last.Path {
			program := make([]byte, f.Size)
			if _, err := f.Content.ReadAt(program, 0); err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			return program, nil
		}
	}
	return nil, fmt.Errorf("the ESP has no %s", last.Path)
}

// measure has a node that runs the older image take that of today.
func (p *publisher) measure(ctx context.Context, c updateCase) (Update, error) {
	u := Update{What: c.what, Root: p.set.RootPieces.Size()}
	u.Whole = u.Root + p.set.UKI.Size + p.set.Part.Size
	out := filepath.Join(p.dir, "older")
	defer os.RemoveAll(out)
	changed, err := p.buildOlder(ctx, c, out)
	if err != nil {
		return u, err
	}
	for _, d := range changed {
		if d.Kind == "package" {
			u.Changed = append(u.Changed, d.String())
		}
	}
	p.takenBy(&u, changed)
	u.Limit = c.limit(u.Packed)
	older, err := rootfs.Open(filepath.Join(out, pipeline.DiskName))
	if err != nil {
		return u, err
	}
	w := StageWork{
		Disk: filepath.Join(p.dir, "disk"), RootHash: older.Root.Hash, ClusterHash: older.Cluster.Hash,
		Cluster: updateCluster, Node: updateNode, State: filepath.Join(p.dir, "state"),
		Keys: []string{base64.StdEncoding.EncodeToString(p.key.Public().(ed25519.PublicKey))},
	}
	older.Close()
	var nodes, hashes []Usage
	for range p.b.rounds {
		if err := p.newNode(ctx, w, filepath.Join(out, pipeline.DiskName)); err != nil {
			return u, err
		}
		node, err := p.push(ctx, w, &u)
		if err != nil {
			return u, err
		}
		root := p.image.Root
		hash, err := Run(ctx, p.b.log, nil, "", p.b.self, hashCommand, root.File,
			fmt.Sprint(root.Offset), fmt.Sprint(root.Size))
		if err != nil {
			return u, err
		}
		nodes, hashes = append(nodes, node), append(hashes, hash)
	}
	u.Node, u.Hash = middle(nodes), middle(hashes)
	return u, os.Remove(w.Disk)
}

// buildOlder builds the older image, or that of today once more of its downloads alone. It returns what the update
// brings.
func (p *publisher) buildOlder(ctx context.Context, c updateCase, out string) ([]lock.Change, error) {
	if c.older == nil {
		return nil, p.again(ctx, out)
	}
	older, err := c.older(p.archive, p.lock)
	if err != nil {
		return nil, err
	}
	o := *p.o
	o.config = filepath.Join(p.dir, "config")
	name := filepath.Join(o.config, lock.Name)
	if err := errors.Join(os.RemoveAll(o.config), copyFolder(p.o.config, o.config), older.Write(name)); err != nil {
		return nil, err
	}
	if _, err := o.build(ctx, o.cache, out, "--locked", "--format", "disk"); err != nil {
		return nil, err
	}
	return lock.Diff(older, p.lock), nil
}

func (p *publisher) again(ctx context.Context, out string) error {
	cache := filepath.Join(p.dir, "cache")
	if err := clone(p.o.cache, cache, downloaded); err != nil {
		return err
	}
	_, err := p.o.build(ctx, cache, out, "--format", "disk")
	return errors.Join(err, os.RemoveAll(cache))
}

// takenBy finds out what the packages that changed take.
func (p *publisher) takenBy(u *Update, changed []lock.Change) {
	names := map[string]bool{}
	for _, pkg := range p.lock.Packages {
		if slices.ContainsFunc(changed, func(c lock.Change) bool {
			return c.Kind == "package" && c.New != "" && c.Name == pkg.Name
		}) {
			names[pkg.Name] = true
			u.Debs += pkg.Size
		}
	}
	for _, item := range p.sizes.Root.Packages {
		if names[item.Name] {
			u.Packed += item.Bytes
		}
	}
	if !names["linux-image-"+p.lock.Kernel] {
		return
	}
	for _, part := range p.sizes.UKI {
		if part.Name == ".linux" {
			u.Packed += part.Bytes
		}
	}
}

// newNode makes the disk of a node of an image, and forgets what it kept.
func (p *publisher) newNode(ctx context.Context, w StageWork, image string) error {
	if _, err := Run(ctx, p.b.log, nil, "", "cp", "--sparse=always", image, w.Disk); err != nil {
		return err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return errors.Join(addSecondSlots(w.Disk), settle(w.Disk, p.set.RootPieces.Size()),
		os.RemoveAll(w.State), os.MkdirAll(w.State, 0o755),
		os.WriteFile(w.file(), text, 0o644))
}

func (w StageWork) file() string { return w.Disk + ".json" }

// stageLimits are what spore-stage.service sets.
var stageLimits = []string{"GOMEMLIMIT=48MiB", "GOGC=off"}

// push brings the update to a node, and returns what that took of the node. Each message is taken by a process of its
// own, as on a node.
func (p *publisher) push(ctx context.Context, w StageWork, u *Update) (total Usage, err error) {
	p.serial++
	s := p.set
	// The time counts the rounds: no run shall depend on when it is.
	issued := time.Unix(1_800_000_000, 0).Add(time.Duration(p.serial) * time.Second)
	head, err := update.Sign(update.Head{
		Cluster: updateCluster, Nodes: []string{updateNode}, Issued: issued, Serial: p.serial,
		RootHash: p.image.Root.Hash, ClusterHash: p.image.Cluster.Hash,
		Root: s.Root, Boot: s.Boot, UKI: s.UKI, Part: s.Part,
	}, p.key)
	if err != nil {
		return total, err
	}
	u.Sent, u.Indexes, u.Boot, u.Messages = 0, 0, 0, 0
	boots := map[pieces.Sum]bool{}
	for _, piece := range s.BootPieces {
		boots[piece.Sum] = true
	}
	message := filepath.Join(p.dir, "message")
	answer := message + ".json"
	defer os.Remove(message)
	last, err := update.Transfer{
		Head: head,
		Object: func(_ context.Context, sum pieces.Sum) ([]byte, error) {
			content, err := s.Object(sum)
			n := int64(len(content))
			switch text := sum.String(); {
			case text == s.Root.Index.SHA256 || text == s.Boot.SHA256:
				u.Indexes += n
			case boots[sum]:
				u.Boot += n
			}
			return content, err
		},
		Send: func(ctx context.Context, r io.Reader) (a update.Answer, err error) {
			data, err := io.ReadAll(r)
			if err != nil {
				return a, err
			}
			u.Messages++
			u.Sent += objectBytes(data[len(head):])
			if err := os.WriteFile(message, data, 0o600); err != nil {
				return a, err
			}
			took, err := Run(ctx, p.b.log, stageLimits, "", p.b.self, stageCommand, w.file(), message, answer)
			if err != nil {
				return a, err
			}
			text, err := os.ReadFile(answer)
			if err != nil {
				return a, err
			}
			var said StageAnswer
			err = json.Unmarshal(text, &said)
			total.CPU, total.Wall = total.CPU+took.CPU, total.Wall+took.Wall
			total.Memory = max(total.Memory, said.Memory)
			return said.Answer, err
		},
	}.Run(ctx)
	if err == nil && last.Lacks != nil {
		err = errors.New("the node did not take the update")
	}
	return total, err
}

// objectBytes is what the objects of a message have without their lengths.
func objectBytes(objects []byte) (sum int64) {
	for len(objects) >= 4 {
		n := int(objects[0])<<24 | int(objects[1])<<16 | int(objects[2])<<8 | int(objects[3])
		sum += int64(n)
		objects = objects[min(4+n, len(objects)):]
	}
	return sum
}

// updateTable shows what was sent.
func updateTable(list []Update) string {
	var b strings.Builder
	b.WriteString("| image | changed | sent KiB | of it indexes | UKI and cluster part | packages take KiB | " +
		"as .deb | sent / packages | goal KiB | met | whole image KiB | sent / image |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|\n")
	kib := func(n int64) string { return fmt.Sprint((n + 1023) >> 10) }
	for _, u := range list {
		factor, packed, debs := "–", "–", "–"
		if u.Packed > 0 {
			factor, packed, debs = number(u.Factor()), kib(u.Packed), kib(u.Debs)
		}
		goal := Goal{Value: float64(u.Sent), Limit: float64(u.Limit)}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | ≤ %s | %s | %s | %.1f %% |\n", u.Image, u.What,
			kib(u.Sent), kib(u.Indexes), kib(u.Boot), packed, debs, factor, kib(u.Limit), goal.Met(),
			kib(u.Whole), 100*float64(u.Sent)/float64(u.Whole))
	}
	return b.String()
}

// nodeTable shows what the node did.
func nodeTable(list []Update) string {
	var b strings.Builder
	b.WriteString("| image | changed | root MiB | messages | node CPU s | hashing CPU s | node / hashing | met | " +
		"node MiB of memory | met |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|---|--:|---|\n")
	for _, u := range list {
		if u.Packed == 0 {
			continue
		}
		goal := timesAtMost(u.Node.CPU, u.Hash.CPU, nodeFactor, fmt.Sprint(nodeFactor), "hashing")
		memory := Goal{Value: float64(u.Node.Memory), Limit: nodeMemory}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %s | %s | %s | %s | %s | %s |\n", u.Image, u.What,
			mebibytes(u.Root), u.Messages, number(u.Node.CPU.Seconds()), number(u.Hash.CPU.Seconds()), goal.Measured(),
			goal.Met(), mebibytes(u.Node.Memory), memory.Met())
	}
	return b.String()
}

// updateNotes say which packages changed, each once.
func updateNotes(list []Update) string {
	var all []string
	for _, u := range list {
		all = append(all, u.Changed...)
	}
	slices.Sort(all)
	var b strings.Builder
	b.WriteString("What changed:\n\n```\n")
	for _, c := range slices.Compact(all) {
		b.WriteString(c + "\n")
	}
	b.WriteString("```\n")
	return b.String()
}
