package image

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"time"

	"github.com/diskfs/go-diskfs/filesystem/fat32"
)

// Places on the ESP.
const (
	bootPath        = "/EFI/BOOT/BOOTX64.EFI"
	systemdBootPath = "/EFI/systemd/systemd-bootx64.efi"
	ukiDir          = "/EFI/Linux"
	loaderPath      = "/loader/loader.conf"
	// nodePath holds this medium's choice of a node. systemd-stub hands it to the initramfs as a credential; it is
	// untrusted.
	nodePath = "/loader/credentials/spore.node.cred"
)

// loaderConf boots the newest entry at once and lets nobody edit a command line (loader.conf(5)).
const loaderConf = "timeout 0\neditor no\n"

const (
	espLabel = "SPORE ESP"
	// maxNode bounds a node choice: a DNS label (RFC 1035, section 2.3.4).
	maxNode = 63
	// espReserve is kept free beside three UKIs, in bytes: directories, the FATs, credentials.
	espReserve = 8 * mib
)

// UKIPath is where a unified kernel image lies on the ESP: its name is its hash, so that two never share one, and has
// room for the suffix of boot counting (UAPI.1, Boot Loader Specification).
func UKIPath(uki []byte) string {
	sum := sha256.Sum256(uki)
	return ukiDir + "/spore_" + hex.EncodeToString(sum[:6]) + ".efi"
}

// espFiles is the content of the ESP by path.
func (o *Options) espFiles() map[string][]byte {
	files := map[string][]byte{
		bootPath:        o.SystemdBoot,
		systemdBootPath: o.SystemdBoot,
		UKIPath(o.UKI):  o.UKI,
		loaderPath:      []byte(loaderConf),
	}
	if o.Node != "" {
		files[nodePath] = []byte(o.Node)
	}
	for name, data := range o.Files {
		if _, ours := files[name]; !ours {
			files[name] = data
		}
	}
	return files
}

// checkESP refuses what would not fit, now or at the third update.
func (o *Options) checkESP(size int64) error {
	var others int64
	for _, data := range o.Files {
		others += int64(len(data))
	}
	if need := 3*int64(len(o.UKI)) + 2*int64(len(o.SystemdBoot)) + others + espReserve; need > size {
		return fmt.Errorf("three UKIs of %d MiB do not fit the ESP of %d MiB, and updates need that room: raise slots.esp in image.yaml to %d",
			len(o.UKI)/mib+1, size/mib, need/mib+1)
	}
	if len(o.Node) > maxNode {
		return fmt.Errorf("the node name %q is longer than %d characters", o.Node, maxNode)
	}
	return nil
}

// writeESP makes a FAT32 filesystem with the files in the partition p of a disk.
func writeESP(disk *sparse, p Partition, files map[string][]byte, when time.Time) error {
	fatfs, err := fat32.Create(disk, usableFAT(p.Size), p.Offset, sectorSize, espLabel, true)
	if err != nil {
		return fmt.Errorf("make FAT32: %w", err)
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := fatfs.Mkdir(path.Dir(name)); err != nil {
			return fmt.Errorf("make directory for %s: %w", name, err)
		}
		f, err := fatfs.OpenFile(name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		// The whole file at once: go-diskfs writes both FATs anew with each Write (go-diskfs#130, #261).
		if _, err := f.Write(files[name]); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return finishFAT(disk, p, names, files, when)
}

// usableFAT returns the largest size, up to that of the partition, for which go-diskfs v1.9.4 makes a table with an entry
// for each cluster. Its formula forgets the two reserved entries, and for some sizes, 64 MiB among them, fsck.fat and
// mtools then refuse the filesystem (go-diskfs#418, set right after v1.9.4). A few sectors at the end are left unused
// instead.
func usableFAT(size int64) int64 {
	perCluster := int64(8)
	if size <= 260*mib {
		perCluster = 1
	}
	const reserved = 32
	for ; ; size -= sectorSize {
		total := size / sectorSize
		denominator := sectorSize*perCluster + 8
		table := (4*(total-reserved) + denominator - 1) / denominator
		clusters := (total - reserved - 2*table) / perCluster
		if (clusters+2)*4 <= table*sectorSize {
			return size
		}
	}
}

// finishFAT sets what go-diskfs leaves at zero or has no say over: the volume's serial number (from the content), the
// sectors before the partition, which some firmware checks, the count of free clusters, and in all directory entries the
// dates, and the number by which a directory calls the root its parent.
func finishFAT(disk *sparse, p Partition, names []string, files map[string][]byte, when time.Time) error {
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(files[name]))
		h.Write(files[name])
	}
	f, err := openFAT(io.NewSectionReader(disk, p.Offset, p.Size), p.Size)
	if err != nil {
		return fmt.Errorf("internal error: read back the ESP: %w", err)
	}
	hidden := binary.LittleEndian.AppendUint32(nil, uint32(p.Offset/sectorSize))
	free, next, err := f.freeClusters()
	if err != nil {
		return fmt.Errorf("internal error: read back the ESP: %w", err)
	}
	summary := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, free), next)
	for _, sector := range []int64{0, f.backupSector} {
		boot := p.Offset + sector*sectorSize
		if _, err := disk.WriteAt(summary, boot+sectorSize+488); err != nil { // FSInfo is the next sector
			return err
		}
		if _, err := disk.WriteAt(hidden, boot+28); err != nil {
			return err
		}
		if _, err := disk.WriteAt(h.Sum(nil)[:4], boot+67); err != nil {
			return err
		}
	}
	return dateDir(disk, p.Offset, f, f.rootCluster, fatTime(when), 0)
}

// maxDepth bounds the directories inside directories.
const maxDepth = 8

// dateDir writes one date into all entries of a directory and of those below it.
func dateDir(disk *sparse, base int64, f *fatFS, cluster uint32, stamp uint32, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("internal error: the ESP has directories more than %d deep", maxDepth)
	}
	var failed error
	entries, err := f.readDir(cluster, func(off int64, e []byte) {
		if e[11]&0x3f == attrLong {
			return
		}
		le := binary.LittleEndian
		e[13] = 0 // tenths of a second of the creation time
		le.PutUint32(e[14:], stamp)
		le.PutUint16(e[18:], uint16(stamp>>16)) // last access: a date alone
		le.PutUint32(e[22:], stamp)
		if string(e[:11]) == "..         " && binary.LittleEndian.Uint16(e[26:]) == uint16(f.rootCluster) && depth == 1 {
			le.PutUint16(e[26:], 0) // the root is cluster 0 there, whatever it is (go-diskfs#70)
		}
		if _, err := disk.WriteAt(e, base+off); err != nil {
			failed = err
		}
	})
	if err != nil || failed != nil {
		return fmt.Errorf("internal error: date the ESP: %w", firstError(err, failed))
	}
	for _, e := range entries {
		if e.dir {
			if err := dateDir(disk, base, f, e.first, stamp, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// fatTime is a time as FAT has it, in UTC: the date in the upper half, the time in the lower. FAT begins in 1980 and
// ends in 2107.
func fatTime(t time.Time) uint32 {
	t = t.UTC()
	if t.Year() < 1980 || t.Year() > 2107 {
		t = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	date := uint32(t.Year()-1980)<<9 | uint32(t.Month())<<5 | uint32(t.Day())
	clock := uint32(t.Hour())<<11 | uint32(t.Minute())<<5 | uint32(t.Second()/2)
	return date<<16 | clock
}
