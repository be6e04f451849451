package slot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"spore/agent/bootdisk"
	"spore/storage/fat"
	"spore/storage/gpt"
	"spore/wire/update"
)

// Types of partitions (Discoverable Partitions Specification; that of cluster parts is ours).
var (
	typeRoot    = gpt.MustParseGUID("4f68bce3-e8cd-4db1-96e7-fbcaf984b709")
	typeVerity  = gpt.MustParseGUID("2c7357ed-ebd2-46d9-aec1-23d437ec2bf5")
	typeCluster = gpt.MustParseGUID("6b0d4b7e-5c0a-4e0e-9d55-73706f726500")
)

// slots are the partitions of one system. Which of a kind is whose says the GUID alone: after a configuration was
// pushed, the cluster part that runs may be cluster-b beside root-a.
type slots struct{ root, verity, cluster gpt.Partition }

// writer is one run on the disk of the machine.
type writer struct {
	m    Machine
	head update.Head
	// dry has nothing written.
	dry bool
	// newRoot and newCluster say what of the update is another one than what runs.
	newRoot, newCluster bool
	disk                Device
	table               gpt.Table
	// runs are the partitions of what runs, free those that an update of the kind may use.
	runs, free slots
	// root, verity and cluster are the free partitions, where the update needs them.
	root, verity, cluster Device
	espDevice             Device
	// esp is nil until the ESP is changed.
	esp *fat.Editor
	// files are those on the ESP.
	files *fat.FS
	// kept says that the boot loader of the update is kept, to be tried.
	kept    bool
	entries entries
	note    string
	// risks are what was found out about the root.
	risks []string
}

// open opens the disk, the ESP and the partitions that do not run.
func (m Machine) open(head update.Head, dry bool) (_ *writer, err error) {
	b := m.Boot
	w := &writer{m: m, head: head, dry: dry}
	w.newRoot, w.newCluster = !sameHash(head.RootHash, b.RootHash), !sameHash(head.ClusterHash, b.ClusterHash)
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.disk, err = m.Open(b.BootDisk.Path, true); err != nil {
		return nil, fmt.Errorf("open the boot disk: %w", err)
	}
	if w.table, err = gpt.Read(w.disk, w.disk.Size(), w.disk.SectorSize()); err != nil {
		return nil, fmt.Errorf("the boot disk %s: %w", b.BootDisk.Path, err)
	}
	wanted, err := bootdisk.WantedFor(b.RootHash, b.ClusterHash)
	if err != nil {
		return nil, fmt.Errorf("what stage1 found: %w", err)
	}
	for _, k := range []struct {
		needed     bool
		kind, runs gpt.GUID
		what       string
		at, other  *gpt.Partition
		dev        *Device
	}{
		{w.newCluster, typeCluster, wanted.Cluster, "configuration", &w.runs.cluster, &w.free.cluster, &w.cluster},
		{w.newRoot, typeRoot, wanted.Root, "root file system", &w.runs.root, &w.free.root, &w.root},
		{w.newRoot, typeVerity, wanted.Verity, "hash tree of a root file " +
			"system", &w.runs.verity, &w.free.verity, &w.verity},
	} {
		if !k.needed {
			continue
		}
		if *k.at, *k.other, err = freeSlot(w.table, k.kind, k.runs, k.what); err != nil {
			return nil, err
		}
		if *k.dev, err = m.Open(m.Partition(k.other.Number), false); err != nil {
			return nil, fmt.Errorf("open the free slot for a %s: %w", k.what, err)
		}
	}
	if w.espDevice, err = m.Open(b.ESP, false); err != nil {
		return nil, fmt.Errorf("open the ESP: %w", err)
	}
	return w, nil
}

// edit opens the ESP for changes, which gives back what a cut left of it. Most messages only bring pieces.
func (w *writer) edit() (*fat.Editor, error) {
	if w.esp != nil {
		return w.esp, nil
	}
	e, err := fat.Edit(w.espDevice, w.espDevice.Size())
	if err != nil {
		return nil, fmt.Errorf("the ESP %s: %w", w.m.Boot.ESP, err)
	}
	w.esp = e
	return e, nil
}

func (w *writer) close() {
	for _, d := range []Device{w.root, w.verity, w.cluster, w.espDevice, w.disk} {
		if d != nil {
			d.Close()
		}
	}
}

// freeSlot finds the two partitions of a kind: the one that runs, and the other.
func freeSlot(t gpt.Table, kind, running gpt.GUID, what string) (runs, free gpt.Partition, err error) {
	n := 0
	for _, p := range t.Partitions {
		switch {
		case p.Type == kind && p.GUID == running:
			runs = p
		case p.Type == kind:
			free = p
			n++
		}
	}
	switch {
	case runs.Number == 0:
		err = refuse("the boot disk has no partition with the %s that runs: it was written anew since this "+
			"machine was started; restart it first", what)
	case n == 0:
		err = refuse("the boot disk has no second slot for a %s: there was no room for it when the machine "+
			"started (see its status), so write the node anew with `spore flash`", what)
	case n > 1:
		err = refuse("the boot disk has %d partitions for a %s beside the one that runs, so that it is not known "+
			"which is free", n, what)
	}
	return runs, free, err
}

// fit refuses what does not fit the partitions.
func (w *writer) fit() error {
	for _, c := range []struct {
		needed     bool
		what, name string
		size, room int64
	}{
		{w.newCluster, "cluster part", "cluster", w.head.Part.Size, w.free.cluster.Size},
		{w.newRoot, "root", "root", w.head.Root.Size, w.free.root.Size},
		{w.newRoot, "hash tree of the root", "verity", treeSize(w.head), w.free.verity.Size},
	} {
		if c.needed && c.size > c.room {
			return refuse("the %s has %d KiB and its slot %d: build with larger slots.%s in image.yaml, and write "+
				"the node anew", c.what, c.size>>10, c.room>>10, c.name)
		}
	}
	return nil
}

// nobody is a GUID for a free partition: nobody looks for it, as it is of no hash of a system.
func (w *writer) nobody(p gpt.Partition) gpt.GUID {
	sum := sha256.Sum256(fmt.Appendf(nil, "spore free slot\n%s\n%d\n", w.table.Disk, p.Number))
	g := gpt.GUID(sum[:16])
	g[6], g[8] = g[6]&0x0f|0x80, g[8]&0x3f|0x80 // RFC 9562, section 5.8
	return g
}

// release has nobody look for partitions that are about to be written to.
func (w *writer) release(parts ...gpt.Partition) error {
	guids := map[int]gpt.GUID{}
	for _, p := range parts {
		guids[p.Number] = w.nobody(p)
	}
	return w.name(guids)
}

// name gives partitions their GUIDs by one change of the table, and reads it back. Nothing is written where they have
// them.
func (w *writer) name(guids map[int]gpt.GUID) error {
	if namedSo(w.table, guids) {
		return nil
	}
	if err := setGUIDs(w.disk, guids); err != nil {
		return fmt.Errorf("the boot disk: %w", err)
	}
	onDisk, _ := w.disk.Fresh()
	table, err := gpt.Read(onDisk, w.disk.Size(), w.disk.SectorSize())
	if err != nil {
		return fmt.Errorf("read the partition table back: %w", err)
	}
	if !namedSo(table, guids) {
		return fmt.Errorf("the partition table: %w", errDiffers)
	}
	w.table = table
	return nil
}

// namedSo tells whether a sound table has partitions with these GUIDs.
func namedSo(t gpt.Table, guids map[int]gpt.GUID) bool {
	n := 0
	for _, p := range t.Partitions {
		if g, ok := guids[p.Number]; ok && g == p.GUID {
			n++
		}
	}
	return n == len(guids) && !t.Backup
}

// part reads a partition of the disk, past no check: what is read of it is held to hashes.
func (w *writer) part(p gpt.Partition) *io.SectionReader {
	return io.NewSectionReader(w.disk, p.Start, p.Size)
}

// piece is how much is copied at once, bulk how much of a root: whoever waits for a disk that often costs more than the
// memory.
const (
	piece = 1 << 20
	bulk  = 2 << 20
)

var errDiffers = errors.New("the disk does not hold what was written to it; it is worn out, replace it")

// writeCluster writes the cluster part and reads it back.
func (w *writer) writeCluster(s source) error {
	if err := w.release(w.free.cluster); err != nil {
		return err
	}
	w.m.Say("writing the cluster part")
	if err := copyAll(w.cluster, s.Part); err != nil {
		return fmt.Errorf("write the cluster part: %w", err)
	}
	fresh, note := w.cluster.Fresh()
	w.note = note
	if err := same(io.NewSectionReader(fresh, 0, s.Part.Size()), w.head.Part.SHA256); err != nil {
		return fmt.Errorf("the cluster part: %w", err)
	}
	return nil
}

// nameSystem gives all partitions of the update the GUIDs that its UKI looks for.
func (w *writer) nameSystem() error {
	wanted, err := bootdisk.WantedFor(w.head.RootHash, w.head.ClusterHash)
	if err != nil {
		return err
	}
	guids := map[int]gpt.GUID{}
	if w.newCluster {
		guids[w.free.cluster.Number] = wanted.Cluster
	}
	if w.newRoot {
		guids[w.free.root.Number], guids[w.free.verity.Number] = wanted.Root, wanted.Verity
	}
	return w.name(guids)
}

// copyAll writes all of src, and flushes it.
func copyAll(dst Device, src *io.SectionReader) error {
	buf := make([]byte, piece)
	for at := int64(0); at < src.Size(); {
		n, err := src.ReadAt(buf[:min(piece, src.Size()-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		if _, err := dst.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return dst.Sync()
}
