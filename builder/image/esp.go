package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"spore/storage/espfiles"
	"spore/storage/fat"
)

// Places on the ESP.
const (
	bootPath        = "/EFI/BOOT/BOOTX64.EFI"
	systemdBootPath = "/EFI/systemd/systemd-bootx64.efi"
	ukiDir          = "/EFI/Linux"
	loaderPath      = "/loader/loader.conf"
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
func UKIPath(uki []byte) string { return ukiPath(sha256.Sum256(uki)) }

func ukiPath(sum [sha256.Size]byte) string {
	return ukiDir + "/spore_" + hex.EncodeToString(sum[:6]) + ".efi"
}

// path is the place of the UKI, for which it is hashed once.
func (o *Options) path() string {
	if o.UKISum == ([sha256.Size]byte{}) {
		o.UKISum = sha256.Sum256(o.UKI)
	}
	return ukiPath(o.UKISum)
}

// espFiles is the content of the ESP by path.
func (o *Options) espFiles() map[string][]byte {
	files := map[string][]byte{
		bootPath:        o.SystemdBoot,
		systemdBootPath: o.SystemdBoot,
		o.path():        o.UKI,
		loaderPath:      o.Enroll.conf(),
	}
	maps.Copy(files, o.Enroll.files())
	if o.Node != "" {
		files[espfiles.Node] = []byte(o.Node)
	}
	for name, data := range o.Files {
		if _, ours := files[name]; !ours {
			files[name] = data
		}
	}
	return files
}

// espNeed is how large the ESP has to be, in bytes: updates need room for three UKIs.
func (o *Options) espNeed() int64 {
	var others int64
	for _, data := range o.Files {
		others += int64(len(data))
	}
	return 3*int64(len(o.UKI)) + 2*int64(len(o.SystemdBoot)) + others + espReserve
}

// checkESP refuses what would not fit, now or at the third update.
func (o *Options) checkESP(size int64) error {
	if need := o.espNeed(); need > size {
		return fmt.Errorf("three UKIs of %d MiB do not fit the ESP of %d MiB, and updates need that room: raise slots.esp in image.yaml to %d",
			len(o.UKI)/mib+1, size/mib, need/mib+1)
	}
	if len(o.Node) > maxNode {
		return fmt.Errorf("the node name %q is longer than %d characters", o.Node, maxNode)
	}
	return o.Enroll.Check()
}

// makeESP makes a FAT32 filesystem with the files for the partition p of a disk.
func makeESP(p Partition, files map[string][]byte, when time.Time) (*fat.Image, error) {
	o := fat.Options{Size: p.Size, Offset: p.Offset, SectorSize: sectorSize, Label: espLabel, Time: when}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		o.Files = append(o.Files, fat.File{Path: name, Size: int64(len(files[name])), Content: bytes.NewReader(files[name])})
	}
	return fat.New(o)
}
