package slot

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/bootdisk"
	"spore/agent/bootinfo"
	"spore/agent/state"
	"spore/storage/fat"
	"spore/storage/gpt"
	"spore/storage/pieces"
	"spore/storage/verity"
	"spore/test/testpe"
	"spore/wire/update"
)

const mib = 1 << 20

// Places of the partitions of the machine's disk.
const (
	espAt, espSize = 1 * mib, 64 * mib
	slotA, slotB   = 68 * mib, 70 * mib
	rootA, rootB   = 66 * mib, 71 * mib
	treeA, treeB   = 67 * mib, 72 * mib
	diskSize       = 74 * mib
)

const clusterID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"

var (
	someRoot = makeRoot("kernel libc openssl systemd coredns mosquitto")
	rootHash = someRoot.hash
)

// rootFS is a root of which each word is a file of its own: roots that share words share pieces.
type rootFS struct {
	data, tree []byte
	hash       string
	salt, id   string
	index      pieces.Index
}

func makeRoot(words string) rootFS {
	var r rootFS
	var at []int64
	for _, w := range strings.Fields(words) {
		seed := sha256.Sum256([]byte(w))
		file := make([]byte, 5000+int(seed[0])*50)
		rand.NewChaCha8(seed).Read(file)
		r.data = append(r.data, file...)
		at = append(at, int64(len(r.data)))
	}
	r.data = append(r.data, make([]byte, 4096-len(r.data)%4096)...)
	o := verity.Derive([]byte(words))
	var tree bytes.Buffer
	sum, _, err := verity.Format(bytes.NewReader(r.data), int64(len(r.data)), &tree, o)
	if err != nil {
		panic(err)
	}
	r.tree, r.hash, r.salt, r.id = tree.Bytes(), hex.EncodeToString(sum[:]), hex.EncodeToString(o.Salt), hex.EncodeToString(o.UUID[:])
	if r.index, err = pieces.Cut(bytes.NewReader(r.data), int64(len(r.data)), at, 8<<10); err != nil {
		panic(err)
	}
	return r
}

func encoded(x pieces.Index) []byte {
	data, err := x.Encode()
	if err != nil {
		panic(err)
	}
	return data
}

// medium is a disk of which only what was written besides a common beginning is held. It keeps a record of its writes.
type medium struct {
	base  []byte
	pages map[int64][]byte
	ops   []operation
	// each, when not nil, is called after each operation.
	each func()
}

// operation is a write, or a flush when it has no data.
type operation struct {
	at   int64
	data []byte
}

const page = 512

func (m *medium) ReadAt(b []byte, off int64) (int, error) {
	n, err := bytes.NewReader(m.base).ReadAt(b, off)
	for p := off / page; p*page < off+int64(n); p++ {
		if data := m.pages[p]; data != nil {
			from := max(p*page, off)
			copy(b[from-off:n], data[from-p*page:])
		}
	}
	return n, err
}

func (m *medium) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > int64(len(m.base)) {
		return 0, io.ErrShortWrite
	}
	m.ops = append(m.ops, operation{off, bytes.Clone(b)})
	m.put(b, off)
	m.did()
	return len(b), nil
}

func (m *medium) did() {
	if m.each != nil {
		m.each()
	}
}

func (m *medium) put(b []byte, off int64) {
	for len(b) > 0 {
		p := off / page
		data := m.pages[p]
		if data == nil {
			data = bytes.Clone(m.base[p*page : (p+1)*page])
		} else {
			data = bytes.Clone(data)
		}
		n := copy(data[off-p*page:], b)
		m.pages[p] = data
		b, off = b[n:], off+int64(n)
	}
}

func (m *medium) Sync() error {
	m.ops = append(m.ops, operation{})
	m.did()
	return nil
}

func (m *medium) clone() *medium { return &medium{base: m.base, pages: maps.Clone(m.pages)} }

// cut is the disk after n operations: what was flushed is there, and of each later write the sectors that chance wants.
func (m *medium) cut(before *medium, n int, rng *rand.Rand) *medium {
	out := before.clone()
	flushed := 0
	for i, o := range m.ops[:n] {
		if o.data == nil {
			flushed = i
		}
	}
	for i, o := range m.ops[:n] {
		for s := 0; s < len(o.data); {
			n := min(page-int(o.at+int64(s))%page, len(o.data)-s)
			if i < flushed || rng.IntN(2) == 0 {
				out.put(o.data[s:s+n], o.at+int64(s))
			}
			s += n
		}
	}
	return out
}

// window is a partition of a medium, or all of it.
type window struct {
	m        *medium
	at, size int64
	// worn has the device keep something else than what is written to it.
	worn bool
}

func (w window) ReadAt(b []byte, off int64) (int, error) {
	return io.NewSectionReader(w.m, w.at, w.size).ReadAt(b, off)
}

func (w window) WriteAt(b []byte, off int64) (int, error) {
	if w.worn {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
	}
	return w.m.WriteAt(b, w.at+off)
}

func (w window) Sync() error                  { return w.m.Sync() }
func (w window) Size() int64                  { return w.size }
func (w window) SectorSize() int              { return 512 }
func (w window) Fresh() (io.ReaderAt, string) { return w, "" }
func (w window) Through() io.WriterAt         { return w }
func (w window) Close() error                 { return nil }

// system is a root and a configuration with the image that starts it.
type system struct {
	root      rootFS
	part, uki []byte
	hash      string
}

// withRoot is the system with another root and another kernel.
func (s system) withRoot(r rootFS, certificate string) system {
	s.root = r
	s.uki = makeUKI("roothash="+r.hash+" spore.clusterhash="+s.hash+" ro console=ttyS0", r.hash, certificate)
	return s
}

// makeSystem makes a cluster part that the kernel would take and a UKI that names it. certificate, if not empty, is the
// name of who signs it; "pcr KEY" is a key for PCR 11 instead.
func makeSystem(text, certificate string) system {
	data := make([]byte, 2*4096)
	le := binary.LittleEndian
	copy(data, "hsqs")
	le.PutUint32(data[12:], 131072)
	le.PutUint16(data[22:], 17)
	le.PutUint16(data[28:], 4)
	le.PutUint64(data[40:], uint64(len(data)))
	copy(data[4096:], text)
	tree := make([]byte, 4096)
	for i := range 2 {
		sum := sha256.Sum256(data[i*4096 : (i+1)*4096])
		copy(tree[i*32:], sum[:])
	}
	super := make([]byte, 4096)
	copy(super, "verity\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00")
	copy(super[32:], "sha256")
	le.PutUint32(super[64:], 4096)
	le.PutUint32(super[68:], 4096)
	le.PutUint64(super[72:], 2)
	root := sha256.Sum256(tree)
	s := system{root: someRoot, part: bytes.Join([][]byte{data, super, tree}, nil), hash: hex.EncodeToString(root[:])}
	s.uki = makeUKI("roothash="+rootHash+" spore.clusterhash="+s.hash+" ro console=ttyS0", "", certificate)
	return s
}

// makeUKI is the least that is a program for UEFI, with a command line in it.
func makeUKI(cmdline, kernel, certificate string) []byte {
	sections := []testpe.Section{{Name: ".cmdline", Data: append([]byte(cmdline), 0)}}
	key, isKey := strings.CutPrefix(certificate, "pcr ")
	if isKey {
		sections = append(sections, testpe.Section{Name: ".pcrpkey", Data: []byte(key)})
	}
	program := testpe.Program(append(sections, testpe.Section{Name: ".linux", Data: append(make([]byte, 16000), kernel...)})...)
	if certificate == "" || isKey {
		return program
	}
	return testpe.Sign(program, certificate)
}

func seed(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

var signingKeys = []string{base64.StdEncoding.EncodeToString(seed(1).Public().(ed25519.PublicKey))}

// head is that of an update with a system.
func (s system) head(t *testing.T, serial uint64, change func(*update.Head)) []byte {
	t.Helper()
	sum := func(b []byte) update.Blob {
		blob, err := update.Sum(bytes.NewReader(b))
		require.NoError(t, err)
		return blob
	}
	h := update.Head{
		Cluster: clusterID, Nodes: []string{"edge-01", "edge-02"}, Issued: time.Unix(1_800_000_000, 0), Serial: serial,
		RootHash: s.root.hash, ClusterHash: s.hash, Part: sum(s.part), UKI: sum(s.uki), Boot: sum(encoded(s.bootIndex(t))),
		Root: update.Root{Size: int64(len(s.root.data)), Salt: s.root.salt, UUID: s.root.id, Index: sum(encoded(s.root.index))},
	}
	if change != nil {
		change(&h)
	}
	data, err := update.Sign(h, seed(1))
	require.NoError(t, err)
	return data
}

func (s system) bootIndex(t *testing.T) pieces.Index {
	t.Helper()
	x, err := pieces.OfProgram(bytes.NewReader(s.uki), int64(len(s.uki)))
	if err != nil { // It is none.
		x, err = pieces.Cut(bytes.NewReader(s.uki), int64(len(s.uki)), nil, 4096)
		require.NoError(t, err)
	}
	part, err := pieces.Cut(bytes.NewReader(s.part), int64(len(s.part)), nil, 64<<10)
	require.NoError(t, err)
	return append(x, part...)
}

// objects are all of an update, in the order of its file.
func (s system) objects(t *testing.T) (list [][]byte) {
	t.Helper()
	list = append(list, encoded(s.bootIndex(t)), encoded(s.root.index))
	for _, c := range []struct {
		x    pieces.Index
		data []byte
	}{{s.bootIndex(t), append(bytes.Clone(s.uki), s.part...)}, {s.root.index, s.root.data}} {
		for _, p := range c.x {
			list, c.data = append(list, c.data[:p.Size]), c.data[p.Size:]
		}
	}
	return list
}

// pusher is somebody who pushes a system.
type pusher struct {
	head    []byte
	objects map[pieces.Sum][]byte
	wish    Wish
	// sent are the objects that were sent.
	sent [][]byte
	// most is how many messages are sent before the pusher is killed; 0 is any number. batch is how many objects are in
	// one.
	most, batch int
}

func (s system) pusher(t *testing.T, serial uint64, change func(*update.Head)) *pusher {
	t.Helper()
	p := &pusher{head: s.head(t, serial, change), objects: map[pieces.Sum][]byte{}}
	for _, o := range s.objects(t) {
		p.objects[pieces.SumOf(o)] = o
	}
	return p
}

var errKilled = errors.New("the operator was killed")

// run pushes it to a node, until it is there or refused.
func (p *pusher) run(t *testing.T, m *Machine) (last Result, err error) {
	t.Helper()
	messages := 0
	object := func(_ context.Context, sum pieces.Sum) ([]byte, error) {
		o, ok := p.objects[sum]
		if !ok {
			return nil, fmt.Errorf("there is no object %s", sum)
		}
		p.sent = append(p.sent, o)
		return o, nil
	}
	send := func(_ context.Context, message io.Reader) (a update.Answer, err error) {
		if messages++; messages == p.most+1 && p.most > 0 {
			return a, errKilled
		}
		msg, err := OpenMessage(message, signingKeys)
		require.NoError(t, err)
		last, err = Stage(*m, msg, p.wish)
		return update.Answer{Lacks: last.Lacks, DryRun: p.wish.DryRun}, err
	}
	if p.batch == 0 {
		_, err = update.Transfer{Head: p.head, Object: object, Send: send}.Run(t.Context())
		return last, err
	}
	for message := p.head; ; {
		a, err := send(t.Context(), bytes.NewReader(message))
		if err != nil || a.Lacks == nil {
			return last, err
		}
		message = bytes.Clone(p.head)
		for _, text := range a.Lacks.Objects[:min(p.batch, len(a.Lacks.Objects))] {
			sum, err := pieces.ParseSum(text)
			require.NoError(t, err)
			o, err := object(t.Context(), sum)
			require.NoError(t, err)
			message = update.AppendObject(message, o)
		}
	}
}

// kept is what a node has in files beside its disk.
type kept struct {
	record []byte
	work   map[string][]byte
}

func keep(t *testing.T, m *Machine) kept {
	k := kept{work: map[string][]byte{}}
	k.record, _ = os.ReadFile(m.Record)
	list, err := os.ReadDir(m.Work)
	require.True(t, err == nil || errors.Is(err, fs.ErrNotExist))
	for _, e := range list {
		k.work[e.Name()], err = os.ReadFile(filepath.Join(m.Work, e.Name()))
		require.NoError(t, err)
	}
	return k
}

// restore gives them to another machine. Of what was not flushed, chance decides.
func (k kept) restore(t *testing.T, m *Machine, s system, rng *rand.Rand) {
	t.Helper()
	if k.record != nil {
		require.NoError(t, os.WriteFile(m.Record, k.record, 0o600))
	}
	if len(k.work) == 0 {
		return
	}
	require.NoError(t, os.MkdirAll(m.Work, 0o700))
	content := append(bytes.Clone(k.work["uki"]), k.work["part"]...)
	if len(content) == len(s.uki)+len(s.part) {
		bits := make([]byte, 1<<10)
		if p := k.work["boot.progress"]; len(p) > progressHead {
			copy(bits, p[progressHead:])
		}
		at := int64(0)
		for i, p := range s.bootIndex(t) {
			if bits[i/8]&(1<<(i%8)) == 0 && rng.IntN(2) == 0 {
				clear(content[at : at+p.Size])
			}
			at += p.Size
		}
	}
	for name, data := range k.work {
		switch {
		case name == "uki" && len(data) == len(s.uki):
			data = content[:len(s.uki)]
		case name == "part" && len(data) == len(s.part):
			data = content[len(content)-len(s.part):]
		}
		require.NoError(t, os.WriteFile(filepath.Join(m.Work, name), data, 0o600))
	}
}

// push pushes a system.
func (s system) push(t *testing.T, m *Machine, serial uint64, change func(*update.Head)) (Result, error) {
	t.Helper()
	return s.pusher(t, serial, change).run(t, m)
}

// entryFile is the name that `spore build` gives an image.
func (s system) entryFile() string {
	sum := sha256.Sum256(s.uki)
	return "spore_" + hex.EncodeToString(sum[:6]) + ".efi"
}

var (
	oldSystem = makeSystem("what runs", "")
	newSystem = makeSystem("what is pushed", "")
	// bases are disks, kept as they are costly to make.
	bases = map[[sha256.Size]byte][]byte{}
)

// newDisk is that of a machine that runs a system: its second slot has the GUID that systemd-repart gave it.
func newDisk(t *testing.T, runs system) *medium {
	t.Helper()
	// By the UKI: those of one cluster part may be signed by different people.
	key := sha256.Sum256(runs.uki)
	if bases[key] == nil {
		bases[key] = makeDisk(t, runs)
	}
	return &medium{base: bases[key], pages: map[int64][]byte{}}
}

func makeDisk(t *testing.T, runs system) []byte {
	data := make([]byte, diskSize)
	w, err := bootdisk.WantedFor(runs.root.hash, runs.hash)
	require.NoError(t, err)
	table := gpt.Table{Disk: gpt.GUID{1}, Partitions: []gpt.Partition{
		{Number: 1, Type: gpt.ESP, GUID: gpt.GUID{2}, Start: espAt, Size: espSize, Name: "esp"},
		{Number: 2, Type: typeRoot, GUID: w.Root, Start: 66 * mib, Size: mib, Name: "root-a"},
		{Number: 3, Type: typeVerity, GUID: w.Verity, Start: 67 * mib, Size: mib, Name: "verity-a"},
		{Number: 4, Type: typeCluster, GUID: w.Cluster, Start: slotA, Size: mib, Name: "cluster-a"},
		{Number: 5, Type: typeRoot, GUID: gpt.GUID{7}, Start: rootB, Size: mib, Name: "root-b"},
		{Number: 6, Type: typeVerity, GUID: gpt.GUID{8}, Start: treeB, Size: mib, Name: "verity-b"},
		{Number: 7, Type: typeCluster, GUID: gpt.GUID{9}, Start: slotB, Size: mib, Name: "cluster-b"},
	}}
	e, err := table.Encode(diskSize, 512)
	require.NoError(t, err)
	copy(data[512:], e.Primary)
	copy(data[e.BackupAt:], e.Backup)
	copy(data[slotA:], runs.part)
	copy(data[rootA:], runs.root.data)
	copy(data[treeA:], append(bytes.Clone(runs.root.tree), encoded(runs.root.index)...))
	file := func(path string, content []byte) fat.File {
		return fat.File{Path: path, Size: int64(len(content)), Content: bytes.NewReader(content)}
	}
	img, err := fat.New(fat.Options{Size: espSize, Offset: espAt, Files: []fat.File{
		file("/EFI/BOOT/BOOTX64.EFI", []byte("loader")), file(Dir+"/"+runs.entryFile(), runs.uki), file("/loader/random-seed", []byte("seed")),
	}})
	require.NoError(t, err)
	_, err = img.ReadAt(data[espAt:espAt+espSize], 0)
	require.NoError(t, err)
	return data
}

// machineOf is the node whose disk it is, when it runs a system.
func machineOf(t *testing.T, disk *medium, runs system) *Machine {
	t.Helper()
	return &Machine{
		Boot: bootinfo.Info{
			BootDisk: bootinfo.Disk{Path: "disk"}, ESP: "1", EFI: true, RootHash: runs.root.hash, ClusterHash: runs.hash,
		},
		Cluster: clusterID, Node: "edge-01", State: state.Info{Kind: state.Partition}, BootID: "boot", Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
		Partition: func(n int) string { return fmt.Sprint(n) },
		Open: func(path string, whole bool) (Device, error) {
			at, ok := map[string]int64{"2": rootA, "3": treeA, "4": slotA, "5": rootB, "6": treeB, "7": slotB}[path]
			switch {
			case path == "disk":
				return window{disk, 0, diskSize, false}, nil
			case path == "1":
				return window{disk, espAt, espSize, false}, nil
			case !ok:
				return nil, fmt.Errorf("there is no partition %q", path)
			}
			return window{disk, at, mib, false}, nil
		},
		Record: filepath.Join(t.TempDir(), "update.json"), Work: filepath.Join(t.TempDir(), "update"), Say: func(string) {},
	}
}

// entriesOf are the files in the directory of entries, with their content.
func entriesOf(t *testing.T, disk *medium) map[string][]byte {
	t.Helper()
	f, err := fat.Open(window{disk, espAt, espSize, false}, espSize)
	require.NoError(t, err)
	list, err := f.List(Dir)
	require.NoError(t, err)
	out := map[string][]byte{}
	for _, e := range list {
		r, err := f.Open(e)
		require.NoError(t, err)
		out[e.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
	return out
}

// boots is the entry that systemd-boot starts by itself, and the cluster part that stage1 would find for it.
func boots(t *testing.T, disk *medium, systems ...system) (system, Entry) {
	t.Helper()
	table, err := gpt.Read(window{disk, 0, diskSize, false}, diskSize, 512)
	require.NoError(t, err)
	var best Entry
	var content []byte
	for name, data := range entriesOf(t, disk) {
		e, ok := ParseEntry(name)
		require.True(t, ok)
		exhausted := func(e Entry) bool { return e.Counted && e.Left == 0 }
		newer := content == nil || exhausted(best) && !exhausted(e) || exhausted(best) == exhausted(e) && e.generation() > best.generation()
		if newer {
			best, content = e, data
		}
	}
	for _, s := range systems {
		if !bytes.Equal(content, s.uki) {
			continue
		}
		w, err := bootdisk.WantedFor(s.root.hash, s.hash)
		require.NoError(t, err)
		for _, c := range []struct {
			guid gpt.GUID
			want []byte
		}{{w.Cluster, s.part}, {w.Root, s.root.data}, {w.Verity, s.root.tree}} {
			p, ok := table.ByGUID(c.guid)
			require.True(t, ok, "the disk has no partition %s for entry %s", c.guid, best.File())
			have := make([]byte, len(c.want))
			_, err = disk.ReadAt(have, p.Start)
			require.NoError(t, err)
			require.True(t, bytes.Equal(c.want, have), "the content of %s for entry %s", p.Name, best.File())
		}
		return s, best
	}
	require.Fail(t, "an entry that is half written would be started: "+best.File())
	return system{}, best
}
