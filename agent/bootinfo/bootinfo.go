// Package bootinfo is what stage1, the init of the initramfs, tells the main system about how the machine came up:
// which disk it was booted from, where the verified partitions are, what the ESP said. It is one JSON file under /run.
package bootinfo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Paths under /run that stage1 leaves to the main system. All of them live on the tmpfs that moves along on switch
// root.
const (
	// Path is where the Info is.
	Path = "/run/spore/boot.json"
	// ClusterDir is where the verified cluster part is mounted (squashfs; ro,nodev,nosuid,noexec). Its layout is
	// package facts'.
	ClusterDir = "/run/spore/cluster"
	// EtcDir holds upper and work directory of the volatile overlay on /etc.
	EtcDir = "/run/spore/etc"
	// NetworkDir is the tmpfs that holds the image of a machine that was booted from the network.
	NetworkDir = "/run/spore/image"
	// RootData and RootTree lead to the partitions of the root and of its hash tree, for units that are given them open
	// (OpenFile= of systemd.service(5)).
	RootData = "/run/spore/root-data"
	RootTree = "/run/spore/root-tree"
	// Delivered is the node's bundle as the boot medium has it, for root alone. Nobody has looked at it yet.
	Delivered = "/run/spore/delivered/bundle"
	// ChosenHere is the node that somebody chose at the machine, as the boot medium has it, for root alone. It counts where
	// Info.ESPNode is the same.
	ChosenHere = "/run/spore/delivered/chosen-here"
	// Answers is the answer file that the boot medium has (package answers), for root alone. Nobody has looked at it yet.
	Answers = "/run/spore/delivered/answers"
	// DeliveredNoCloud is the node's bundle as NoCloud gave it, for root alone. The agent writes it, and nobody has looked
	// at it either.
	DeliveredNoCloud = "/run/spore/delivered/nocloud"
	// AnswersNoCloud is the answer file of a volume of NoCloud, for root alone. The agent writes it, and nobody has looked
	// at it yet.
	AnswersNoCloud = "/run/spore/delivered/nocloud-answers"
)

// FromChance begins Info.MachineIDFrom where nothing of the machine is the same at each boot.
const FromChance = "chance:"

// MaxDelivered bounds the bundle in bytes (systemd, CREDENTIAL_SIZE_MAX).
const MaxDelivered = 1 << 20

// MaxAnswers bounds the answer file in bytes.
const MaxAnswers = 64 << 10

// maxSize bounds the file; stage1 writes well under a page.
const maxSize = 64 << 10

// Info is the content of Path.
type Info struct {
	// BootDisk is the disk that root and cluster part came from; empty when they came from the network.
	BootDisk Disk `json:"bootDisk"`
	// NetworkURL is the folder of a server that they came from, with a slash at its end; empty when they came from a disk.
	// It was not authenticated: what came from it was checked by its hashes.
	NetworkURL string `json:"networkURL,omitempty"`
	// ESP, RootPart, VerityPart and ClusterPart are device nodes of partitions on BootDisk, or of the image in memory. ESP
	// is empty when the disk has none.
	ESP         string `json:"esp"`
	RootPart    string `json:"rootPart"`
	VerityPart  string `json:"verityPart"`
	ClusterPart string `json:"clusterPart"`
	// ESPNode is the node name that was chosen on the ESP (package espfiles): a valid DNS label, or empty. It is not
	// authenticated: whoever can write the stick can write it.
	ESPNode string `json:"espNode"`
	// RootHash and ClusterHash are the verity root hashes of the kernel command line, hex, lower case.
	RootHash    string `json:"rootHash"`
	ClusterHash string `json:"clusterHash"`
	// BuildTime is the image's time in Unix seconds. stage1 has set the clock to it if it was before.
	BuildTime int64 `json:"buildTime"`
	// ClockSet says that the clock was before BuildTime (dead or unset RTC) and was set to it.
	ClockSet bool `json:"clockSet,omitempty"`
	// MachineID is what /etc/machine-id says; MachineIDFrom names what it derives from, such as "DMI product UUID".
	MachineID     string `json:"machineID"`
	MachineIDFrom string `json:"machineIDFrom"`
	// Stage1Start and Stage1End are seconds since boot (CLOCK_BOOTTIME).
	Stage1Start float64 `json:"stage1Start"`
	Stage1End   float64 `json:"stage1End"`
	// EFI says that the machine was started by UEFI firmware (not a direct kernel boot).
	EFI bool `json:"efi"`
	// Slow is by how much the machine is slower than others, as whoever started it says: 1 to spec.MaxSlow; 0 when nobody
	// does.
	Slow int `json:"slow,omitempty"`
	// ChosenBy says in words why BootDisk is the one.
	ChosenBy string `json:"chosenBy"`
}

// Disk names one disk.
type Disk struct {
	// Path is the device node, such as /dev/vda. It is only good for this boot.
	Path string `json:"path"`
	// Serial and Model are as sysfs says, trimmed; empty when unknown.
	Serial string `json:"serial"`
	Model  string `json:"model"`
	// DevicePath is the path below /sys/devices, such as pci0000:00/0000:00:03.0/virtio0/block/vda.
	DevicePath string `json:"devicePath"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Optical says that it is a disc: nothing can be written to it, and its partitions are mappings that stage1 made.
	Optical bool `json:"optical,omitempty"`
}

// Read reads an Info from path (usually Path).
func Read(path string) (Info, error) {
	var info Info
	f, err := os.Open(path)
	if err != nil {
		return info, fmt.Errorf("reading what stage1 found: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return info, fmt.Errorf("reading what stage1 found: %w", err)
	}
	if st.Size() > maxSize {
		return info, fmt.Errorf("reading what stage1 found: %s has %d bytes, more than %d", path, st.Size(), maxSize)
	}
	if err := json.NewDecoder(f).Decode(&info); err != nil {
		return info, fmt.Errorf("reading what stage1 found: %s: %w", path, err)
	}
	return info, nil
}

// Write writes info to path, readable by all, creating its directory.
func Write(path string, info Info) error {
	data, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("internal error: boot info: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing boot info: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing boot info: %w", err)
	}
	return nil
}

// LinkRoot makes RootData and RootTree under a directory that stands for /.
func LinkRoot(root string, info Info) error {
	for name, device := range map[string]string{RootData: info.RootPart, RootTree: info.VerityPart} {
		if device == "" {
			continue
		}
		if err := os.Symlink(device, filepath.Join(root, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("writing boot info: %w", err)
		}
	}
	return nil
}
