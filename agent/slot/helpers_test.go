package slot

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
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
	"spore/test/testpe"
	"spore/wire/update"
)

const mib = 1 << 20

// Places of the partitions of the machine's disk.
const (
	espAt, espSize = 1 * mib, 64 * mib
	slotA, slotB   = 68 * mib, 70 * mib
	diskSize       = 74 * mib
)

const clusterID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"

var (
	typeRoot   = gpt.MustParseGUID("4f68bce3-e8cd-4db1-96e7-fbcaf984b709")
	typeVerity = gpt.MustParseGUID("2c7357ed-ebd2-46d9-aec1-23d437ec2bf5")
	rootHash   = strings.Repeat("ab", 16) + strings.Repeat("cd", 16)
)

// medium is a disk of which only what was written besides a common beginning is held. It keeps a record of its writes.
type medium struct {
	base  []byte
	pages map[int64][]byte
	ops   []operation
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
	return len(b), nil
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
func (w window) Close() error                 { return nil }

// system is a configuration with the image that starts it.
type system struct {
	part, uki []byte
	hash      string
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
	s := system{part: bytes.Join([][]byte{data, super, tree}, nil), hash: hex.EncodeToString(root[:])}
	s.uki = makeUKI("roothash="+rootHash+" spore.clusterhash="+s.hash+" ro console=ttyS0", certificate)
	return s
}

// makeUKI is the least that is a program for UEFI, with a command line in it.
func makeUKI(cmdline, certificate string) []byte {
	sections := []testpe.Section{{Name: ".cmdline", Data: append([]byte(cmdline), 0)}}
	key, isKey := strings.CutPrefix(certificate, "pcr ")
	if isKey {
		sections = append(sections, testpe.Section{Name: ".pcrpkey", Data: []byte(key)})
	}
	program := testpe.Program(append(sections, testpe.Section{Name: ".linux", Data: make([]byte, 16000)})...)
	if certificate == "" || isKey {
		return program
	}
	return testpe.Sign(program, certificate)
}

func seed(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

var signingKeys = []string{base64.StdEncoding.EncodeToString(seed(1).Public().(ed25519.PublicKey))}

// offer is an update with a system.
func (s system) offer(t *testing.T, serial uint64, change func(*update.Head)) Source {
	t.Helper()
	data := s.wire(t, serial, change)
	src, err := OpenSource(bytes.NewReader(data), int64(len(data)), signingKeys)
	require.NoError(t, err)
	return src
}

func (s system) wire(t *testing.T, serial uint64, change func(*update.Head)) []byte {
	t.Helper()
	part, err := update.Sum(bytes.NewReader(s.part))
	require.NoError(t, err)
	uki, err := update.Sum(bytes.NewReader(s.uki))
	require.NoError(t, err)
	h := update.Head{
		Cluster: clusterID, Nodes: []string{"edge-01", "edge-02"}, Issued: time.Unix(1_800_000_000, 0), Serial: serial,
		RootHash: rootHash, ClusterHash: s.hash, Part: part, UKI: uki,
	}
	if change != nil {
		change(&h)
	}
	data, err := update.Sign(h, seed(1))
	require.NoError(t, err)
	return bytes.Join([][]byte{data, s.part, s.uki}, nil)
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
	w, err := bootdisk.WantedFor(rootHash, runs.hash)
	require.NoError(t, err)
	table := gpt.Table{Disk: gpt.GUID{1}, Partitions: []gpt.Partition{
		{Number: 1, Type: gpt.ESP, GUID: gpt.GUID{2}, Start: espAt, Size: espSize, Name: "esp"},
		{Number: 2, Type: typeRoot, GUID: w.Root, Start: 66 * mib, Size: mib, Name: "root-a"},
		{Number: 3, Type: typeVerity, GUID: w.Verity, Start: 67 * mib, Size: mib, Name: "verity-a"},
		{Number: 4, Type: typeCluster, GUID: w.Cluster, Start: slotA, Size: mib, Name: "cluster-a"},
		{Number: 7, Type: typeCluster, GUID: gpt.GUID{9}, Start: slotB, Size: mib, Name: "cluster-b"},
	}}
	e, err := table.Encode(diskSize, 512)
	require.NoError(t, err)
	copy(data[512:], e.Primary)
	copy(data[e.BackupAt:], e.Backup)
	copy(data[slotA:], runs.part)
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
			BootDisk: bootinfo.Disk{Path: "disk"}, ESP: "1", EFI: true, RootHash: rootHash, ClusterHash: runs.hash,
		},
		Cluster: clusterID, Node: "edge-01", State: state.Info{Kind: state.Partition}, BootID: "boot", Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
		Partition: func(n int) string { return fmt.Sprint(n) },
		Open: func(path string, whole bool) (Device, error) {
			switch path {
			case "disk":
				return window{disk, 0, diskSize, false}, nil
			case "1":
				return window{disk, espAt, espSize, false}, nil
			case "4":
				return window{disk, slotA, mib, false}, nil
			}
			return window{disk, slotB, mib, false}, nil
		},
		Record: filepath.Join(t.TempDir(), "update.json"), Say: func(string) {},
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
		w, err := bootdisk.WantedFor(rootHash, s.hash)
		require.NoError(t, err)
		p, ok := table.ByGUID(w.Cluster)
		require.True(t, ok, "the disk has no partition for entry %s", best.File())
		part := make([]byte, len(s.part))
		_, err = disk.ReadAt(part, p.Start)
		require.NoError(t, err)
		require.Equal(t, s.part, part, "the cluster part for entry %s", best.File())
		return s, best
	}
	require.Fail(t, "an entry that is half written would be started: "+best.File())
	return system{}, best
}
