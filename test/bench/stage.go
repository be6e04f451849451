package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/storage/flash"
	"spore/storage/gpt"
	"spore/wire/update"
)

// Subcommands that do what a node does with its disk, each in a process of its own as there. They are not for people.
const (
	stageCommand = "stage"
	hashCommand  = "hash"
)

// StageWork says which node takes a message. The node's disk is a file.
type StageWork struct {
	Disk string
	// RootHash and ClusterHash are of what runs.
	RootHash, ClusterHash string
	Cluster, Node         string
	// Keys are those that sign updates, in base64.
	Keys []string
	// State is a folder for what the node keeps of updates.
	State string
}

// StageAnswer is what became of a message.
type StageAnswer struct {
	update.Answer
	// Memory is the most that the process had, in bytes.
	Memory int64
}

// runStage takes a message as spore-stage.service does, and writes a StageAnswer: the file of a StageWork, the
// message, the file of the answer.
func runStage(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bench stage WORK.json MESSAGE ANSWER.json")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var w StageWork
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	message, err := slot.OpenMessage(f, w.Keys)
	if err != nil {
		return err
	}
	m, err := w.machine()
	if err != nil {
		return err
	}
	r, err := slot.Stage(m, message, slot.Wish{})
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	a := StageAnswer{Answer: update.Answer{
		Lacks: r.Lacks, Change: r.Change, Entry: r.Entry, Unchanged: r.Unchanged, Note: r.Note,
	}}
	a.Memory, _ = parseHighWater(string(status))
	if text, err = json.Marshal(a); err != nil {
		return err
	}
	return os.WriteFile(args[2], text, 0o644)
}

// machine is the node of package slot.
func (w StageWork) machine() (slot.Machine, error) {
	table, err := readTable(w.Disk)
	if err != nil {
		return slot.Machine{}, err
	}
	parts := map[string]gpt.Partition{}
	for _, p := range table.Partitions {
		parts[strconv.Itoa(p.Number)] = p
	}
	return slot.Machine{
		Boot: bootinfo.Info{
			BootDisk: bootinfo.Disk{Path: w.Disk}, ESP: "1", EFI: true,
			RootHash: w.RootHash, ClusterHash: w.ClusterHash,
		},
		Cluster: w.Cluster, Node: w.Node, State: state.Info{Kind: state.Partition},
		BootID: "bench", Now: time.Now, Say: func(string) {},
		Record: filepath.Join(w.State, "update.json"), Work: filepath.Join(w.State, "update"),
		Partition: strconv.Itoa,
		Open: func(path string, whole bool) (slot.Device, error) {
			d, err := flash.OpenShared(w.Disk)
			if err != nil || whole {
				return d, err
			}
			p, ok := parts[path]
			if !ok {
				return nil, errors.Join(fmt.Errorf("the disk has no partition %s", path), d.Close())
			}
			return partition{d, p}, nil
		},
	}, nil
}

func readTable(path string) (gpt.Table, error) {
	d, err := flash.OpenRead(path)
	if err != nil {
		return gpt.Table{}, err
	}
	defer d.Close()
	return gpt.Read(d, d.Size(), d.SectorSize())
}

// partition is one of a disk that is a file.
type partition struct {
	*flash.File
	p gpt.Partition
}

func (d partition) ReadAt(b []byte, off int64) (int, error) {
	return io.NewSectionReader(d.File, d.p.Start, d.p.Size).ReadAt(b, off)
}

func (d partition) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > d.p.Size {
		return 0, io.ErrShortWrite
	}
	return d.File.WriteAt(b, d.p.Start+off)
}

func (d partition) Size() int64 { return d.p.Size }

func (d partition) Fresh() (io.ReaderAt, string) {
	r, note := d.File.Fresh()
	return io.NewSectionReader(r, d.p.Start, d.p.Size), note
}

func (d partition) Through() io.WriterAt { return io.NewOffsetWriter(d.File.Through(), d.p.Start) }

// addSecondSlots makes the file of an image the disk of a node: behind its partitions come those of the second
// system, as systemd-repart makes them.
func addSecondSlots(path string) error {
	table, err := readTable(path)
	if err != nil {
		return err
	}
	var end int64
	next := 0
	for _, p := range table.Partitions {
		end, next = max(end, p.Start+p.Size), max(next, p.Number)
	}
	for _, p := range table.Partitions {
		name, first := secondSlots[p.Name]
		if !first {
			continue
		}
		next++
		sum := sha256.Sum256([]byte(name))
		end = (end + mib - 1) / mib * mib
		table.Partitions = append(table.Partitions, gpt.Partition{
			Number: next, Type: p.Type, GUID: gpt.GUID(sum[:16]), Start: end, Size: p.Size, Name: name,
		})
		end += p.Size
	}
	size := end + mib
	if err := os.Truncate(path, size); err != nil {
		return err
	}
	e, err := table.Encode(size, sectorSize)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, w := range []struct {
		data []byte
		at   int64
	}{{e.MBR, 0}, {e.Primary, sectorSize}, {e.Backup, e.BackupAt}} {
		if _, err := f.WriteAt(w.data, w.at); err != nil {
			return err
		}
	}
	return f.Close()
}

// settle makes the file as a disk that was there before: so many bytes of the free root have their blocks, nothing
// waits to be written, and the host's memory has none of it. On a node none of this is the work of who takes an update.
func settle(path string, root int64) error {
	table, err := readTable(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	zeros := make([]byte, mib)
	for _, p := range table.Partitions {
		for at := int64(0); p.Name == secondSlots["root-a"] && at < root; at += mib {
			if _, err := f.WriteAt(zeros[:min(mib, root-at)], p.Start+at); err != nil {
				return err
			}
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}

const (
	mib        = 1 << 20
	sectorSize = 512
)

// secondSlots are the partitions of the second system by those of the first.
var secondSlots = map[string]string{"root-a": "root-b", "verity-a": "verity-b", "cluster-a": "cluster-b"}

// runHash reads a part of a file past the host's memory, as a node reads back, and hashes it. This is the measure for
// a node's work: the file, an offset and a length.
func runHash(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bench hash FILE OFFSET SIZE")
	}
	offset, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	d, err := flash.OpenRead(args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	sum := sha256.New()
	fresh, _ := d.Fresh()
	if _, err := io.CopyBuffer(sum, io.NewSectionReader(fresh, offset, size), make([]byte, mib)); err != nil {
		return err
	}
	fmt.Printf("%x\n", sum.Sum(nil))
	return nil
}
