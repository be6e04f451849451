package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"

	"spore/builder/iso"
)

// The hybrid ISO is one image for four ways to boot:
//
//	bytes 0…          MBR with isolinux's boot code and an active entry; GPT header; GPT entries
//	32 KiB            ISO 9660 descriptors, boot catalog, directories
//	1 MiB             root-a, verity-a, cluster-a, each as large as its content
//	                  esp: El Torito's image for UEFI, and the ESP of the GPT
//	                  spore-iso: isolinux, its kernel and initramfs, and the boot files once more as files of the ISO
//	the last MiB      backup GPT
//
// As a disc, UEFI finds the ESP and a BIOS finds isolinux by the boot catalog. Written to a stick or disk as it is, UEFI
// finds the same ESP by the GPT, and a BIOS runs the MBR, which loads isolinux. All counts of the GPT are in sectors of 512
// bytes; where a disc has those of 2048, stage1 reads the table itself.
//
// Everything that a change of the configuration touches is behind the root, so that the root stays where it is.

// TypeReserved is the GPT type of the partition that keeps others off the ISO's own files (Linux, reserved).
const TypeReserved = "8da63339-0007-60c0-c436-083ac8230908"

const (
	isoLabel = "SPORE"
	// isoPartition is the GPT label of the partition with the ISO's own files.
	isoPartition = "spore-iso"
	// maxLoad is what the boot catalog can say of the size of an image, in sectors of 512 bytes.
	maxLoad = 1<<16 - 1
	// biosLoad is how much of isolinux the BIOS loads, in sectors of 512 bytes; it loads the rest itself.
	biosLoad = 4
)

// Paths in the tree of the ISO. Those of firmware and boot loader are as on an ESP, for firmware that reads ISO 9660, and for
// whoever copies files.
const (
	isolinuxPath    = "isolinux/isolinux.bin"
	isolinuxConf    = "isolinux/isolinux.cfg"
	ldlinuxPath     = "isolinux/ldlinux.c32"
	isoKernel       = "boot/vmlinuz"
	isoInitrd       = "boot/initrd"
	isoRoot         = "spore/root.squashfs"
	isoVerity       = "spore/root.verity"
	isoCluster      = "spore/cluster.squashfs"
	isoReadme       = "readme.txt"
	isoReadmeText   = "Spore: an appliance image.\r\n\r\nBurn it to a disc, or write it to a stick or disk as it is, byte by byte\r\n(spore flash, dd, or the raw or DD mode of other programs). Copying these files\r\nto a stick is not enough: the system is found by its partitions.\r\n"
	loaderParameter = "spore.loader"
)

// BIOS is what boots the ISO where there is no UEFI: files of Syslinux, which run on the machine alone.
type BIOS struct {
	// MBR is isohdpfx.bin, ISOLinux isolinux.bin, Ldlinux ldlinux.c32 of the same build.
	MBR, ISOLinux, Ldlinux []byte
}

// ISOOptions say what goes into a hybrid ISO.
type ISOOptions struct {
	// Options are as for a disk. Slots are not used: partitions are as large as their content, and the ESP has room for three
	// UKIs.
	Options
	BIOS BIOS
	// Kernel, Initrd and Cmdline boot without UEFI. They are those of the UKI; Initrd begins with the processor's microcode,
	// where the UKI has some.
	Kernel, Initrd []byte
	Cmdline        string
}

// sizes of what isohybrid needs.
const (
	// mbrCode is the length of the boot code; the number of isolinux's first sector follows it (isohybrid.c of Syslinux).
	mbrCode = 432
	// bootInfo is where isolinux.bin keeps what it has to know about its disc: 8 words of 32 bits from byte 8, the checksum
	// goes over what is behind them (mkisofs, -boot-info-table).
	bootInfo, bootInfoEnd = 8, 64
	// maxISOLinux bounds it: it is loaded below 640 KiB.
	maxISOLinux = 512 << 10
)

// hybridMagic is where isolinux.bin says that it can be started by isohdpfx.bin (isohybrid.c of Syslinux).
var hybridMagic = []byte{0xfb, 0xc0, 0x78, 0x70}

func (b BIOS) check() error {
	switch {
	case len(b.MBR) != mbrCode:
		return fmt.Errorf("isohdpfx.bin has %d bytes and not %d", len(b.MBR), mbrCode)
	case len(b.ISOLinux) < iso.SectorSize || len(b.ISOLinux) > maxISOLinux || !bytes.Equal(b.ISOLinux[bootInfoEnd:bootInfoEnd+4], hybridMagic):
		return fmt.Errorf("isolinux.bin of %d bytes cannot be started from a disk", len(b.ISOLinux))
	case len(b.Ldlinux) == 0:
		return errors.New("ldlinux.c32 is empty")
	}
	return nil
}

// patched is isolinux.bin with its boot info table, for a place on the disc. What an earlier one has there does not matter.
func (b BIOS) patched(sector int64) []byte {
	out := bytes.Clone(b.ISOLinux)
	clear(out[bootInfo:bootInfoEnd])
	le := binary.LittleEndian
	var sum uint32
	words := append(bytes.Clone(out[bootInfoEnd:]), 0, 0, 0)
	for ; len(words) >= 4; words = words[4:] {
		sum += le.Uint32(words)
	}
	for i, v := range []uint32{iso.SystemArea / iso.SectorSize, uint32(sector), uint32(len(out)), sum} {
		le.PutUint32(out[bootInfo+4*i:], v)
	}
	return out
}

// hybrid is an ISO while it is laid out.
type hybrid struct {
	o    *ISOOptions
	size int64
	// parts are the partitions by number: esp, root-a, verity-a, cluster-a, spore-iso.
	parts []Partition
	// memory is what is written into spore-iso, by its path; files all files of the ISO.
	memory   map[string][]byte
	files    []iso.File
	isolinux int64 // its sector
}

// WriteISO makes the hybrid ISO at a path; see Write.
func WriteISO(ctx context.Context, name string, o ISOOptions) (*Result, error) {
	res, err := writeISO(ctx, name, o)
	if err != nil {
		return nil, fmt.Errorf("make ISO %s: %w", name, err)
	}
	return res, nil
}

func writeISO(ctx context.Context, name string, o ISOOptions) (*Result, error) {
	if err := errors.Join(checkHash("root", o.RootHash), checkHash("cluster", o.ClusterHash), o.BIOS.check(), checkAppend(o.Cmdline)); err != nil {
		return nil, err
	}
	h := &hybrid{o: &o}
	if err := h.layOut(); err != nil {
		return nil, err
	}
	if err := o.checkESP(h.parts[0].Size); err != nil {
		return nil, err
	}
	esp, err := makeESP(h.parts[0], o.espFiles(), o.Time)
	if err != nil {
		return nil, fmt.Errorf("ESP: %w", err)
	}
	disk := newSparse(h.size)
	if err := h.writeTables(disk); err != nil {
		return nil, fmt.Errorf("partition table: %w", err)
	}
	if err := h.writeTree(disk); err != nil {
		return nil, err
	}
	err = create(name, disk, func(f *os.File) error { return o.fillPartitions(ctx, f, h.parts, esp) })
	if err != nil {
		return nil, err
	}
	return &Result{Size: h.size, Partitions: h.parts, UKIPath: o.path()}, nil
}

// checkAppend takes a command line that isolinux hands on as it is; the kernel's own limit is checked with the UKI.
func checkAppend(cmdline string) error {
	if strings.ContainsAny(cmdline, "\r\n") || strings.Contains(cmdline, " initrd=") || strings.HasPrefix(cmdline, "initrd=") {
		return fmt.Errorf("the kernel command line %q cannot be given by isolinux: initrd= and line ends have a meaning there", cmdline)
	}
	return nil
}

// espUUID is the PARTUUID of the ISO's ESP. That of a disk image of the same build is another, so that stage1 can tell the
// medium from the disk that was written from it.
func (h *hybrid) espUUID() string { return derivedUUID("spore iso esp", h.o.RootHash, h.o.ClusterHash) }

// layOut places everything.
func (h *hybrid) layOut() error {
	o := h.o
	rootUUID, verityUUID := HashUUIDs(o.RootHash)
	clusterUUID, _ := HashUUIDs(o.ClusterHash)
	h.parts = make([]Partition, 5)
	at := int64(firstOffset)
	for i, p := range []struct {
		Partition
		src  Source
		path string
	}{
		{Partition{Name: "root-a", Type: TypeRoot, UUID: rootUUID, Attributes: readOnly}, o.Root, isoRoot},
		{Partition{Name: "verity-a", Type: TypeVerity, UUID: verityUUID, Attributes: readOnly}, o.Verity, isoVerity},
		{Partition{Name: "cluster-a", Type: TypeCluster, UUID: clusterUUID}, o.Cluster, isoCluster},
	} {
		f, size, err := p.src.open()
		if err != nil {
			return err
		}
		f.Close()
		p.Number, p.Offset, p.Size = i+2, at, roundUpMiB(size)
		h.parts[i+1] = p.Partition
		h.files = append(h.files, iso.File{Path: p.path, Sector: at / iso.SectorSize, Size: size})
		at += p.Size
	}
	h.parts[0] = Partition{Number: 1, Name: "esp", Type: TypeESP, UUID: h.espUUID(), Offset: at, Size: max(minESP*mib, roundUpMiB(o.espNeed()))}
	at += h.parts[0].Size
	end := h.placeFiles(at)
	h.parts[4] = Partition{Number: 5, Name: isoPartition, Type: TypeReserved, UUID: derivedUUID("spore iso files", o.RootHash, o.ClusterHash),
		Offset: at, Size: roundUpMiB(end - at), Attributes: readOnly}
	h.size = at + h.parts[4].Size + tail
	return nil
}

func roundUpMiB(n int64) int64 { return max((n+mib-1)/mib, 1) * mib }

// placeFiles places the ISO's own files from an offset on, and returns where they end.
func (h *hybrid) placeFiles(at int64) int64 {
	o := h.o
	files := []struct {
		path string
		data []byte
	}{
		{isolinuxPath, nil},
		{isolinuxConf, []byte(h.isolinuxConf())},
		{ldlinuxPath, o.BIOS.Ldlinux},
		{isoKernel, o.Kernel},
		{isoInitrd, o.Initrd},
		{strings.TrimPrefix(bootPath, "/"), o.SystemdBoot},
		{strings.TrimPrefix(o.path(), "/"), o.UKI},
		{strings.TrimPrefix(loaderPath, "/"), []byte(loaderConf)},
		{isoReadme, []byte(isoReadmeText)},
	}
	h.isolinux = at / iso.SectorSize
	files[0].data = o.BIOS.patched(h.isolinux)
	h.memory = map[string][]byte{}
	for _, f := range files {
		h.memory[f.path] = f.data
		h.files = append(h.files, iso.File{Path: f.path, Sector: at / iso.SectorSize, Size: int64(len(f.data))})
		at += (int64(len(f.data)) + iso.SectorSize - 1) / iso.SectorSize * iso.SectorSize
	}
	return at
}

// isolinuxConf boots at once and lets nobody edit the command line (Syslinux, doc/syslinux.txt). The parameter tells stage1
// which medium it is on: without UEFI nobody else does.
func (h *hybrid) isolinuxConf() string {
	return "default spore\nprompt 0\ntimeout 0\nnoescape 1\nallowoptions 0\n" +
		"label spore\n  kernel /" + isoKernel + "\n  initrd /" + isoInitrd + "\n" +
		"  append " + h.o.Cmdline + " " + loaderParameter + "=" + h.espUUID() + "\n"
}

// writeTree writes the metadata of the ISO and its own files.
func (h *hybrid) writeTree(disk *sparse) error {
	esp := h.parts[0]
	// An image that is too large for the field reaches to the end of the disc (UEFI 2.10, section 13.3.2.1).
	load := esp.Size / sectorSize
	if load > maxLoad {
		load = 0
	}
	v := iso.Volume{
		Label: isoLabel, Sectors: h.size / iso.SectorSize, Time: h.o.Time, Files: h.files,
		Boot: []iso.Entry{
			{Platform: iso.BIOS, Sector: h.isolinux, Load: biosLoad},
			{Platform: iso.UEFI, Sector: esp.Offset / iso.SectorSize, Load: uint16(load)},
		},
	}
	meta, err := v.Marshal()
	if err != nil {
		return err
	}
	if iso.SystemArea+len(meta) > firstOffset {
		return fmt.Errorf("internal error: the directories of the ISO take %d bytes", len(meta))
	}
	if _, err := disk.WriteAt(meta, iso.SystemArea); err != nil {
		return err
	}
	for _, f := range h.files {
		if data, ok := h.memory[f.Path]; ok {
			if _, err := disk.WriteAt(data, f.Sector*iso.SectorSize); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeTables writes GPT and MBR.
func (h *hybrid) writeTables(disk *sparse) error {
	if err := writeTable(disk, h.parts, derivedUUID("spore iso", h.o.RootHash, h.o.ClusterHash)); err != nil {
		return err
	}
	if err := startUsableAt(disk, firstOffset/sectorSize); err != nil {
		return err
	}
	return h.writeMBR(disk)
}

// startUsableAt raises the first usable sector in both copies of the GPT: the space behind the primary copy is the ISO's.
func startUsableAt(disk *sparse, first uint64) error {
	for _, at := range []int64{sectorSize, disk.size - sectorSize} {
		head := make([]byte, gptHeaderSize)
		if _, err := disk.ReadAt(head, at); err != nil {
			return err
		}
		le := binary.LittleEndian
		le.PutUint64(head[40:], first)
		le.PutUint32(head[16:], 0)
		le.PutUint32(head[16:], crc32.ChecksumIEEE(head))
		if _, err := disk.WriteAt(head, at); err != nil {
			return err
		}
	}
	return nil
}

// Parts of the MBR.
const (
	mbrSerial = 440
	mbrTable  = 446
	mbrEntry  = 16
	// mbrActive marks the entry that a BIOS starts; mbrHidden is the type that isohybrid gives it: no system mounts it, and
	// as it is not zero, libfdisk, which systemd-repart uses, takes the MBR for a hybrid one and leaves it as it is.
	mbrActive, mbrHidden = 0x80, 0x17
)

// writeMBR puts isolinux's boot code before the table, and an active entry behind the protective one: firmware that wants
// GPT asks for the protective entry, inactive and from sector 1 on (UEFI 2.10, section 5.2.3), and old BIOSes take no disk
// for bootable on which no entry is active.
func (h *hybrid) writeMBR(disk *sparse) error {
	le := binary.LittleEndian
	head := make([]byte, mbrTable)
	copy(head, h.o.BIOS.MBR)
	le.PutUint32(head[mbrCode:], uint32(h.isolinux*(iso.SectorSize/sectorSize)))
	sum := sha256.Sum256([]byte("spore mbr " + h.o.RootHash + h.o.ClusterHash))
	copy(head[mbrSerial:mbrSerial+4], sum[:])
	if _, err := disk.WriteAt(head, 0); err != nil {
		return err
	}
	// Cylinder 0, head 0, sector 1 at both ends: the MBR itself, the one sector that the protective entry leaves.
	entry := []byte{mbrActive, 0, 1, 0, mbrHidden, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0}
	_, err := disk.WriteAt(entry, mbrTable+mbrEntry)
	return err
}

// ISO is what Inspect finds of a hybrid ISO besides the partitions.
type ISO struct {
	iso.Info
	// UEFI and BIOS say that the boot catalog has an entry for them that leads where it should.
	UEFI bool `json:"uefi"`
	BIOS bool `json:"bios"`
}

// readISO reads the ISO 9660 volume that an image may be as well.
func (i *Info) readISO(r io.ReaderAt) {
	v, err := iso.Read(r, i.Size)
	if errors.Is(err, iso.ErrNone) {
		return
	}
	if err != nil {
		i.note("%v", err)
		return
	}
	i.ISO = &ISO{Info: *v}
	esp := i.partition(TypeESP, "")
	isolinux, hasISOLinux := iso.Find(v.Files, isolinuxPath)
	for _, e := range v.Boot {
		switch {
		case e.Platform == iso.UEFI && esp != nil && e.Sector*iso.SectorSize == esp.Offset:
			i.ISO.UEFI = true
		case e.Platform == iso.BIOS && hasISOLinux && e.Sector == isolinux.Sector:
			i.ISO.BIOS = true
		}
	}
	if !i.ISO.UEFI {
		i.note("the boot catalog has no entry that leads to the ESP: UEFI does not boot it as a disc")
	}
	if !i.ISO.BIOS {
		i.note("the boot catalog has no entry that leads to isolinux: a BIOS does not boot it as a disc")
	}
}

// maxBIOSFile bounds what ReadBIOS reads of a file, in bytes.
const maxBIOSFile = 1 << 20

// ReadBIOS reads what boots an ISO without UEFI from an ISO that Inspect has taken apart, for making another.
func (i *Info) ReadBIOS(r io.ReaderAt) (BIOS, error) {
	if i.ISO == nil {
		return BIOS{}, errors.New("read isolinux: the image is not an ISO")
	}
	b := BIOS{MBR: make([]byte, mbrCode)}
	if _, err := r.ReadAt(b.MBR, 0); err != nil {
		return BIOS{}, fmt.Errorf("read isolinux: %w", err)
	}
	for name, into := range map[string]*[]byte{isolinuxPath: &b.ISOLinux, ldlinuxPath: &b.Ldlinux} {
		f, ok := iso.Find(i.ISO.Files, name)
		if !ok || f.Size > maxBIOSFile {
			return BIOS{}, fmt.Errorf("read isolinux: the ISO has no %s of at most %d bytes", name, maxBIOSFile)
		}
		*into = make([]byte, f.Size)
		if _, err := r.ReadAt(*into, f.Sector*iso.SectorSize); err != nil {
			return BIOS{}, fmt.Errorf("read isolinux: %s: %w", name, err)
		}
	}
	return b, b.check()
}
