package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/u-root/u-root/pkg/mount"
	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/bootdisk"
	"spore/agent/bootinfo"
	"spore/agent/clock"
	"spore/agent/efi"
	"spore/agent/kcmdline"
	"spore/agent/spare"
	"spore/agent/stage1/modules"
	"spore/agent/watchdog"
	"spore/storage/gpt"
)

// Paths in the initramfs.
const (
	configFile = "/etc/spore/stage1.json"
	sysroot    = "/sysroot"
	initPath   = "/usr/lib/systemd/systemd"
	efiVars    = "/sys/firmware/efi/efivars"
)

// config is the JSON in configFile, written by the builder.
type config struct {
	// BuildTime is the image's time in Unix seconds: the clock is never before it.
	BuildTime int64 `json:"buildTime"`
	// Modules are loaded in any case, in this order, besides those that devices ask for.
	Modules []string `json:"modules"`
}

// boot is one run of stage1: what its steps hand on.
type boot struct {
	start time.Duration
	// guard feeds the hardware watchdog. watched is closed when the search for one has ended; nil when nobody searches.
	guard       *watchdog.Guard
	watched     chan struct{}
	kmsg        *os.File
	sys         fs.FS
	config      config
	commandLine string
	args        kcmdline.Args
	wanted      bootdisk.Wanted
	events      eventSource
	loader      *modules.Loader
	pluggedAll  bool
	firmware    efi.Boot
	seen        []bootdisk.Seen
	scanned     bool
	// discPending says that a drive has no disc, or none that can be read yet.
	discPending bool
	disk        bootdisk.Seen
	parts       map[gpt.GUID]part
	info        bootinfo.Info
	// noted says that the firmware knows a system that may be started instead of this one, and counted that this start
	// was counted there.
	noted, counted bool
}

// part is a partition as the kernel knows it.
type part struct {
	gpt.Partition
	// Node is such as /dev/vda2, Dev such as "254:2".
	Node, Dev string
}

func (b *boot) mountAPI() (string, error) {
	const common = unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV
	for _, m := range []struct {
		kind, at, options string
		flags             uintptr
	}{
		{"proc", "/proc", "", common},
		{"sysfs", "/sys", "", common},
		{"devtmpfs", "/dev", "mode=0755", unix.MS_NOSUID},
		{"tmpfs", "/run", "mode=0755,size=20%", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		if err := mountAt(m.kind, m.at, m.kind, m.options, m.flags); err != nil {
			return "", err
		}
	}
	// Without this the kernel drops all but ten lines in five seconds. systemd sets the same.
	_ = os.WriteFile("/proc/sys/kernel/printk_devkmsg", []byte("on\n"), 0)
	if kmsg, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0); err == nil {
		b.kmsg = kmsg
	}
	// If the Go runtime itself dies, the kernel must not stop for ever. A panic= of the command line wins.
	if text, _ := os.ReadFile("/proc/sys/kernel/panic"); strings.TrimSpace(string(text)) == "0" {
		_ = os.WriteFile("/proc/sys/kernel/panic", []byte("10\n"), 0)
	}
	log.SetFlags(0)
	log.SetOutput(b)
	b.sys = os.DirFS("/sys")
	return "mounted /proc, /sys, /dev and /run", nil
}

// mountAt mounts and makes the mount point when it is not there.
func mountAt(device, at, kind, options string, flags uintptr) error {
	_, err := mount.Mount(device, at, kind, options, flags, func() error { return os.MkdirAll(at, 0o755) })
	return err
}

func (b *boot) readConfig() (string, error) {
	data, err := os.ReadFile(configFile)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(data, &b.config); err != nil {
		return "", fmt.Errorf("%s: %w", configFile, err)
	}
	return "", nil
}

func (b *boot) readCommandLine() (string, error) {
	data, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "", err
	}
	b.commandLine = strings.TrimSpace(string(data))
	if b.args, err = kcmdline.Parse(b.commandLine); err != nil {
		return "", err
	}
	b.wanted, err = bootdisk.WantedFor(b.args.RootHash, b.args.ClusterHash)
	return "", err
}

// raiseClock sets a clock that cannot be right by the image's time, as with an empty RTC battery, to that time.
func (b *boot) raiseClock() (string, error) {
	now := time.Now()
	floor := time.Unix(b.config.BuildTime, 0)
	if !clock.Wrong(now, floor) {
		return "", nil
	}
	tv := unix.NsecToTimeval(floor.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return "", err
	}
	b.info.ClockSet = true
	return fmt.Sprintf("the clock said %s; set it to the time of the image, %s", now.UTC().Format(time.RFC3339), floor.UTC().Format(time.RFC3339)), nil
}

// readFirmware reads what firmware and boot loader say. None of it is needed when one disk alone holds the image.
func (b *boot) readFirmware() (string, error) {
	if _, err := os.Stat("/sys/firmware/efi"); err != nil {
		b.firmware.LoaderPartition = b.args.Loader
		if b.args.Loader != (gpt.GUID{}) {
			return fmt.Sprintf("started by a BIOS, from the medium with the partition %s", b.args.Loader), nil
		}
		return "not started by UEFI firmware: one disk alone must hold the image", nil
	}
	b.info.EFI = true
	b.firmware.SecureBoot = true // As long as the variables cannot be read: words from outside can see to that.
	if err := b.loader.Load("efivarfs"); err != nil {
		return "EFI variables cannot be read: " + err.Error(), nil
	}
	if err := mountAt("efivarfs", efiVars, "efivarfs", "", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV); err != nil {
		return "EFI variables cannot be read: " + err.Error(), nil
	}
	var err error
	b.firmware, err = efi.ReadBoot(os.DirFS(efiVars))
	if n, err := spare.Read(efiVars); err == nil {
		b.noted = n.Is(b.args.RootHash, b.args.ClusterHash)
	}
	text := fmt.Sprintf("booted by %q, %s, loader partition %s", b.firmware.Option, b.firmware.Path, b.firmware.LoaderPartition)
	if err != nil {
		text += "; " + oneLine(err)
	}
	// systemd mounts its own, writable; this one would be taken for it.
	if err := unix.Unmount(efiVars, 0); err != nil {
		return "", err
	}
	return text, nil
}

// refuseWords stops a machine with Secure Boot whose kernel has words that are not of the image. systemd's stub appends
// what the machine's tables (SMBIOS) say, whether anybody signed it or not, and a word can give a root shell.
func (b *boot) refuseWords() (string, error) {
	if !b.info.EFI || !b.firmware.SecureBoot || len(b.args.Outside) == 0 {
		return "", nil
	}
	return "", fmt.Errorf("with Secure Boot on, words that are not the image's are refused: %q; take them away from the virtual machine or the boot medium, or build the image "+
		"with kernelArguments in image.yaml", strings.Join(b.args.Outside, " "))
}

func (b *boot) overlayEtc() (string, error) {
	upper, work := filepath.Join(bootinfo.EtcDir, "upper"), filepath.Join(bootinfo.EtcDir, "work")
	for _, dir := range []string{upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	etc := sysroot + "/etc"
	err := mountAt("overlay", etc, "overlay", "lowerdir="+etc+",upperdir="+upper+",workdir="+work, 0)
	return "laid a volatile overlay over /etc", err
}

// mountTmp mounts what tmp.mount would, with its options: systemd takes it for that unit, and a process less is
// started, which on a slow machine costs more than half a second.
func (b *boot) mountTmp() (string, error) {
	return "", mountAt("tmpfs", sysroot+"/tmp", "tmpfs", "mode=1777,size=50%,nr_inodes=1m", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_STRICTATIME)
}

// nodeName takes a node name from what the ESP says: one DNS label of lower-case letters, digits and hyphens.
func nodeName(data []byte) (string, error) {
	name := strings.TrimSpace(string(data))
	good := len(name) >= 1 && len(name) <= 63 && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
	for _, c := range []byte(name) {
		good = good && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !good {
		return "", fmt.Errorf("%q is not a DNS label (a-z, 0-9 and -, at most 63)", name)
	}
	return name, nil
}

func (b *boot) writeBootInfo() (string, error) {
	esp := ""
	if p, ok := b.disk.ESP(b.firmware.LoaderPartition); ok {
		if name, _, ok := blockdev.Partition(b.sys, b.disk.Disk, p.Number); ok {
			esp = "/dev/" + name
		}
	}
	if d := b.disk.Disk; d.Name != "" {
		b.info.BootDisk = bootinfo.Disk{
			Path: "/dev/" + d.Name, Serial: d.Serial, Model: d.Model, Size: d.Size, DevicePath: strings.TrimPrefix(d.SysPath, "devices/"), Optical: d.Optical,
		}
	}
	b.info.ESP = esp
	b.info.RootPart, b.info.VerityPart, b.info.ClusterPart = b.parts[b.wanted.Root].Node, b.parts[b.wanted.Verity].Node, b.parts[b.wanted.Cluster].Node
	b.info.RootHash, b.info.ClusterHash = b.args.RootHash, b.args.ClusterHash
	b.info.BuildTime, b.info.Slow = b.config.BuildTime, b.args.Slow
	b.info.Stage1Start, b.info.Stage1End = b.start.Seconds(), sinceBoot().Seconds()
	if err := bootinfo.Write(bootinfo.Path, b.info); err != nil {
		return "", err
	}
	return "", bootinfo.LinkRoot("/", b.info)
}

func (b *boot) switchRoot() (string, error) {
	b.say(notice, "done in %.3f s; switching to the root", (sinceBoot() - b.start).Seconds())
	return "", switchRoot(sysroot, initPath, initEnvironment)
}
