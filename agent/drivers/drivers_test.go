package drivers_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/drivers"
)

// sysfs reads a tree of testdata: "path = content" and "link -> target", each in a line.
func sysfs(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".sys")
	require.NoError(t, err)
	return parseTree(string(text))
}

func parseTree(text string) fstest.MapFS {
	out := fstest.MapFS{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if link, target, ok := strings.Cut(line, " -> "); ok {
			out[link] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
		} else if file, content, ok := strings.Cut(line, " ="); ok {
			out[file] = &fstest.MapFile{Data: []byte(strings.TrimSpace(content) + "\n")}
		}
	}
	return out
}

const release = "6.12.48+deb13-amd64"

// aliases are some of Debian's modules.alias.
const aliases = `# Aliases extracted from modules themselves.
alias virtio:d00000002v* virtio_blk
alias virtio:d00000001v* virtio_net
alias virtio:d00000004v* virtio_rng
alias pci:v*d*sv*sd*bc01sc08i02* nvme
alias pci:v00008086d0000467Fsv*sd*bc*sc*i* vmd
alias pci:v00008086d00001533sv*sd*bc*sc*i* igb
alias pci:v00008086d00002922sv*sd*bc*sc*i* ahci
alias pci:v*d*sv*sd*bc01sc06i01* ahci
alias pci:v00001095d00000680sv*sd*bc*sc*i* pata_old
alias pci:v*d*sv*sd*bc01sc01i* ata_generic
alias scsi:t-0x00* sd_mod
alias scsi:t-0x05* sr_mod
alias pci:v00008086d000010D3sv*sd*bc*sc*i* e1000e
alias pci:v00008086d0000293Esv*sd*bc*sc*i* snd_hda_intel
alias pci:v*d*sv*sd*bc0Csc03i30* xhci_pci
alias usb:v*p*d*dc09dsc*dp*ic*isc*ip*in* usbcore
alias usb:v*p*d*dc*dsc*dp*ic08isc06ip50in* usb_storage
alias usb:v*p*d*dc*dsc*dp*ic08isc06ip50in* uas
alias pci:v00008086d000010FBsv*sd*bc*sc*i* ixgbe
alias pci:v000014E4d0000165Fsv*sd*bc*sc*i* tg3
`

// loadable are the modules of those, and what nothing asks for by an alias.
var loadable = []string{
	"virtio_blk", "virtio_net", "virtio_rng", "nvme", "vmd", "igb", "ahci", "pata_old", "ata_generic", "sd_mod", "sr_mod", "e1000e",
	"snd_hda_intel", "xhci_pci", "usbcore", "usb_storage", "uas", "ixgbe", "tg3", "dm_crypt",
}

// early are those in the initramfs.
var early = []string{"virtio_blk", "nvme", "vmd", "ahci", "sd_mod", "sr_mod", "xhci_pci", "usbcore", "usb_storage", "uas", "ata_generic"}

// system is a root as it is changed.
type system struct {
	aliases           string
	loadable, builtin []string
	initramfs         []string
	modinfo           string
}

func today() system {
	return system{aliases: aliases, loadable: slices.Clone(loadable), builtin: []string{"virtio_pci", "tpm_tis"}, initramfs: slices.Clone(early)}
}

// without is a system without some modules.
func (s system) without(names ...string) system {
	gone := func(name string) bool { return slices.Contains(names, name) }
	s.loadable = slices.DeleteFunc(slices.Clone(s.loadable), gone)
	s.builtin = slices.DeleteFunc(slices.Clone(s.builtin), gone)
	s.initramfs = slices.DeleteFunc(slices.Clone(s.initramfs), gone)
	var kept strings.Builder
	for line := range strings.Lines(s.aliases) {
		if words := strings.Fields(line); !gone(words[len(words)-1]) {
			kept.WriteString(line)
		}
	}
	s.aliases = kept.String()
	return s
}

func (s system) root() fstest.MapFS {
	dir := drivers.ModuleDir + "/" + release
	files := map[string]string{"modules.alias": s.aliases, "modules.builtin.modinfo": s.modinfo}
	for _, name := range s.loadable {
		files["modules.dep"] += "kernel/drivers/" + name + ".ko.xz:\n"
	}
	for _, name := range s.builtin {
		files["modules.builtin"] += "kernel/drivers/" + name + ".ko\n"
	}
	if s.initramfs != nil {
		files["modules.initramfs"] = strings.Join(s.initramfs, "\n") + "\n"
	}
	out := fstest.MapFS{}
	for name, text := range files {
		out[dir+"/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func kernel(t testing.TB, s system) drivers.Kernel {
	t.Helper()
	k, err := drivers.ReadKernel(s.root(), "")
	require.NoError(t, err)
	return k
}

// machines are those of testdata, with what the node uses of them.
func machine(t testing.TB, name string) drivers.Machine {
	t.Helper()
	m := drivers.Machine{Sys: sysfs(t, name)}
	switch name {
	case "virtio":
		m.Boot, m.State, m.Data = "/dev/vda", "/dev/vda7", []string{"/dev/vdb1"}
	case "nvme":
		m.Boot, m.State, m.TPM = "/dev/nvme0n1", "/dev/mapper/spore-state", true
	case "ahci":
		m.Boot, m.State, m.Data = "/dev/sda", "/dev/sda2", []string{"/dev/sdb1"}
	case "usb":
		m.Boot = "/dev/sdb"
	}
	return m
}

var all = []string{"virtio", "nvme", "ahci", "usb", "bond"}

func TestTheSameSystemLosesNothing(t *testing.T) {
	for _, name := range all {
		losses, err := drivers.Compare(machine(t, name), kernel(t, today()), kernel(t, today()))
		require.NoError(t, err)
		require.Empty(t, losses, name)
	}
}

// What is lost without some modules: the losses that refuse begin with !.
func TestWhatANewKernelIsWithout(t *testing.T) {
	for name, tt := range map[string]struct {
		machine string
		fresh   func(system) system
		want    []string
	}{
		"a virtio disk needs virtio_blk": {"virtio", func(s system) system { return s.without("virtio_blk") }, []string{
			"!the data disk /dev/vdb1: the new kernel has no driver for virtio1 (today virtio_blk; virtio:d00000002v00001AF4)",
			"!the boot disk /dev/vda, the disk with the node's state /dev/vda7: the new kernel has no driver for virtio0 (today virtio_blk; virtio:d00000002v00001AF4)",
		}},
		"a virtio disk needs the bus that it is on": {"virtio", func(s system) system { return s.without("virtio_pci") }, []string{
			"!the data disk /dev/vdb1: the new kernel has no driver for 0000:01:03.0 (today virtio_pci; pci:v00001AF4d00001042sv00001AF4sd00001100bc01sc00i00)",
			"!the boot disk /dev/vda, the disk with the node's state /dev/vda7: the new kernel has no driver for 0000:00:02.0 (today virtio_pci; pci:v00001AF4d00001042",
			"!the network card eth0: the new kernel has no driver for 0000:00:04.0 (today virtio_pci; pci:v00001AF4d00001041",
			"the new kernel has no driver for the device 0000:00:05.0 (today virtio_pci; pci:v00001AF4d00001044",
		}},
		"a device that nobody needs is only said": {"virtio", func(s system) system { return s.without("virtio_rng") }, []string{
			"the new kernel has no driver for the device virtio3 (today virtio_rng; virtio:d00000004v00001AF4)",
		}},
		"the driver may be built in from now on": {"virtio", func(s system) system {
			s = s.without("virtio_blk")
			s.builtin = append(s.builtin, "virtio_blk")
			return s
		}, nil},
		"a built-in driver may be a module from now on": {"virtio", func(s system) system {
			s = s.without("virtio_pci")
			s.loadable, s.initramfs = append(s.loadable, "virtio_pci"), append(s.initramfs, "virtio_pci")
			s.aliases += "alias pci:v00001AF4d*sv*sd*bc*sc*i* virtio_pci\n"
			return s
		}, nil},
		"a built-in driver that becomes a module has to be in the initramfs": {"virtio", func(s system) system {
			s = s.without("virtio_pci")
			s.loadable = append(s.loadable, "virtio_pci")
			s.aliases += "alias pci:v00001AF4d*sv*sd*bc*sc*i* virtio_pci\n"
			return s
		}, []string{"!the boot disk /dev/vda, the disk with the node's state /dev/vda7: the new initramfs has no driver for 0000:00:02.0 (today virtio_pci; pci:v00001AF4d00001042"}},
		"another module that is new takes the device": {"virtio", func(s system) system {
			s = s.without("virtio_blk")
			s.loadable, s.initramfs = append(s.loadable, "virtio_disk"), append(s.initramfs, "virtio_disk")
			s.aliases += "alias virtio:d00000002v* virtio_disk\n"
			return s
		}, nil},
		"a built-in module that is new takes it, and says so": {"virtio", func(s system) system {
			s = s.without("virtio_blk")
			s.builtin = append(s.builtin, "virtio_disk")
			s.modinfo = "virtio_disk.license=GPL\x00virtio_disk.alias=virtio:d00000002v*\x00virtio_disk.alias=\x00broken\x00"
			return s
		}, nil},
		"the boot disk's driver has to be in the initramfs": {"virtio", func(s system) system {
			s.initramfs = slices.DeleteFunc(s.initramfs, func(m string) bool { return m == "virtio_blk" })
			return s
		}, []string{"!the boot disk /dev/vda, the disk with the node's state /dev/vda7: the new initramfs has no driver for virtio0 (today virtio_blk; virtio:d00000002v00001AF4)"}},
		"a root that does not say what its initramfs has": {"virtio", func(s system) system { s.initramfs = nil; return s }, nil},

		"an NVMe disk needs nvme, on each way to it": {"nvme", func(s system) system { return s.without("nvme") }, []string{
			"!the boot disk /dev/nvme0n1, the disk with the node's state /dev/mapper/spore-state: the new kernel has no driver for 10000:e1:00.0 (today nvme; pci:v0000144Dd0000A808",
			"!the boot disk /dev/nvme0n1, the disk with the node's state /dev/mapper/spore-state: the new kernel has no driver for 0000:02:00.0 (today nvme; pci:v0000144Dd0000A808",
		}},
		"an NVMe disk behind a VMD needs vmd": {"nvme", func(s system) system { return s.without("vmd") }, []string{
			"!the boot disk /dev/nvme0n1, the disk with the node's state /dev/mapper/spore-state: the new kernel has no driver for 0000:00:0e.0 (today vmd; pci:v00008086d0000467F",
		}},
		"a driver that does not know this device any more": {"nvme", func(s system) system {
			s.aliases = strings.Replace(s.aliases, "pci:v*d*sv*sd*bc01sc08i02*", "pci:v0000144Dd0000A80Asv*sd*bc*sc*i*", 1)
			return s
		}, []string{
			"!the boot disk /dev/nvme0n1, the disk with the node's state /dev/mapper/spore-state: the new kernel has no driver for 10000:e1:00.0 (today nvme",
			"!the boot disk /dev/nvme0n1, the disk with the node's state /dev/mapper/spore-state: the new kernel has no driver for 0000:02:00.0 (today nvme",
		}},
		"encrypted state needs dm_crypt": {"nvme", func(s system) system { return s.without("dm_crypt") }, []string{
			"!the disk with the node's state /dev/mapper/spore-state: the new kernel has no driver for dm-3 (today dm_crypt)",
		}},
		"a device that is bound by its name": {"nvme", func(s system) system { return s.without("tpm_tis") }, []string{
			"!the TPM, to which the node's secrets are sealed: the new kernel has no driver for 00:04 (today tpm_tis)",
		}},

		"a SATA disk needs ahci": {"ahci", func(s system) system { return s.without("ahci") }, []string{
			"!the boot disk /dev/sda, the data disk /dev/sdb1, the disk /dev/sr0, which this node does not use, the disk with the node's state /dev/sda2: the new kernel has no driver for 0000:00:1f.2 (today ahci",
		}},
		"a SATA disk needs sd_mod": {"ahci", func(s system) system { return s.without("sd_mod") }, []string{
			"!the boot disk /dev/sda, the disk with the node's state /dev/sda2: the new kernel has no driver for 0:0:0:0 (today sd_mod; scsi:t-0x00)",
			"!the data disk /dev/sdb1: the new kernel has no driver for 1:0:0:0 (today sd_mod; scsi:t-0x00)",
			"the disk /dev/sdc, which this node does not use: the new kernel has no driver for 8:0:0:0 (today sd_mod; scsi:t-0x00)",
		}},
		"a disk that nobody uses": {"ahci", func(s system) system { return s.without("pata_old") }, []string{
			"the disk /dev/sdc, which this node does not use: the new kernel has no driver for 0000:00:1e.0 (today pata_old",
		}},
		"sound": {"ahci", func(s system) system { return s.without("snd_hda_intel") }, []string{
			"the new kernel has no driver for the device 0000:00:1b.0 (today snd_hda_intel",
		}},

		"a stick needs usb_storage, and uas is no substitute": {"usb", func(s system) system { return s.without("usb_storage") }, []string{
			"!the boot disk /dev/sdb: the new kernel has no driver for 1-3.2:1.0 (today usb_storage; usb:v0951p1666",
		}},
		"a stick needs the controller": {"usb", func(s system) system { return s.without("xhci_pci") }, []string{
			"!the boot disk /dev/sdb: the new kernel has no driver for 0000:00:14.0 (today xhci_pci",
		}},
		"a stick needs the bus": {"usb", func(s system) system { return s.without("usbcore") }, []string{
			"!the boot disk /dev/sdb: the new kernel has no driver for usb1 (today usbcore)",
			"!the boot disk /dev/sdb: the new kernel has no driver for 1-3 (today usbcore)",
			"!the boot disk /dev/sdb: the new kernel has no driver for 1-3.2 (today usbcore)",
			"the new kernel has no driver for the device 1-0:1.0 (today usbcore",
			"the new kernel has no driver for the device 1-3:1.0 (today usbcore",
		}},

		"both cards of a bond": {"bond", func(s system) system { return s.without("ixgbe", "tg3") }, []string{
			"!the network card eno1: the new kernel has no driver for 0000:01:00.0 (today ixgbe; pci:v00008086d000010FB",
			"!the network card eno2: the new kernel has no driver for 0000:02:00.0 (today tg3; pci:v000014E4d0000165F",
			"the network card eno3, which is down: the new kernel has no driver for 0000:02:00.1 (today tg3; pci:v000014E4d0000165F",
		}},
		"one card of a bond": {"bond", func(s system) system { return s.without("ixgbe") }, []string{
			"!the network card eno1: the new kernel has no driver for 0000:01:00.0 (today ixgbe",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			losses, err := drivers.Compare(machine(t, tt.machine), kernel(t, today()), kernel(t, tt.fresh(today())))
			require.NoError(t, err)
			var got []string
			for _, l := range losses {
				got = append(got, map[bool]string{true: "!"}[l.Refuses]+l.String())
			}
			require.Len(t, got, len(tt.want), "%q", got)
			for i, want := range tt.want {
				require.True(t, strings.HasPrefix(got[i], want), "%s\nbegins not with\n%s", got[i], want)
			}
			refusing, said := drivers.Refusing(losses)
			require.Equal(t, losses, append(refusing, said...))
		})
	}
}

// A driver that today's initramfs is without is not needed there: something else found the disk.
func TestWhatTheInitramfsOfTodayDoesWithoutIsNotAskedFor(t *testing.T) {
	running, fresh := today(), today()
	running.initramfs = slices.DeleteFunc(running.initramfs, func(m string) bool { return m == "vmd" })
	fresh.initramfs = slices.Clone(running.initramfs)
	losses, err := drivers.Compare(machine(t, "nvme"), kernel(t, running), kernel(t, fresh))
	require.NoError(t, err)
	require.Empty(t, losses)
}

// A module that the running root does not list was loaded by somebody else; no new root would have it.
func TestAModuleOfSomebodyElseIsNotJudged(t *testing.T) {
	losses, err := drivers.Compare(machine(t, "ahci"), kernel(t, today().without("snd_hda_intel")), kernel(t, today().without("snd_hda_intel")))
	require.NoError(t, err)
	require.Empty(t, losses)
}

func TestATPMThatNothingIsSealedToIsOnlySaid(t *testing.T) {
	m := machine(t, "nvme")
	m.TPM = false
	losses, err := drivers.Compare(m, kernel(t, today()), kernel(t, today().without("tpm_tis")))
	require.NoError(t, err)
	require.Len(t, losses, 1)
	require.False(t, losses[0].Refuses)
	require.Equal(t, "the TPM: the new kernel has no driver for 00:04 (today tpm_tis)", losses[0].String())
}

func TestAMachineThatCannotBeReadIsAnError(t *testing.T) {
	k := kernel(t, today())
	for name, tt := range map[string]struct {
		change func(*drivers.Machine)
		want   string
	}{
		"no sysfs":                    {func(m *drivers.Machine) { m.Sys = fstest.MapFS{} }, "look for the devices of this machine"},
		"a boot disk that is gone":    {func(m *drivers.Machine) { m.Boot = "/dev/vdz" }, `the kernel knows no block device "/dev/vdz"`},
		"state that is gone":          {func(m *drivers.Machine) { m.State = "/dev/mapper/spore-state" }, `device-mapper knows no "/dev/mapper/spore-state"`},
		"a data disk that is no name": {func(m *drivers.Machine) { m.Data = []string{"/dev/../x"} }, `the kernel knows no block device`},
		"nothing at all":              {func(m *drivers.Machine) { m.Sys = nil }, "internal error"},
	} {
		m := machine(t, "virtio")
		tt.change(&m)
		_, err := drivers.Compare(m, k, k)
		require.ErrorContains(t, err, tt.want, name)
	}
	_, err := drivers.Compare(machine(t, "virtio"), drivers.Kernel{}, k)
	require.ErrorContains(t, err, "internal error")
}

func TestTheKernelOfARoot(t *testing.T) {
	root := today().root()
	_, err := drivers.ReadKernel(root, release)
	require.NoError(t, err)
	for _, bad := range []string{"6.1", "..", ".", "a/b", "/etc"} {
		_, err := drivers.ReadKernel(root, bad)
		require.Error(t, err, bad)
	}
	_, err = drivers.ReadKernel(fstest.MapFS{}, "")
	require.ErrorContains(t, err, "find the kernel of a root")
	root[drivers.ModuleDir+"/6.1/modules.dep"] = &fstest.MapFile{Data: []byte("a.ko:\n")}
	_, err = drivers.ReadKernel(root, "")
	require.ErrorContains(t, err, "this one of 2")
	for _, file := range []string{"modules.builtin.modinfo", "modules.initramfs", "modules.alias"} {
		big := today().root()
		big[drivers.ModuleDir+"/"+release+"/"+file] = &fstest.MapFile{Data: make([]byte, 17<<20)}
		_, err = drivers.ReadKernel(big, "")
		require.ErrorContains(t, err, "more than 16777216 bytes", file)
	}
}

func TestTheSysfsOfThisMachineIsRead(t *testing.T) {
	if _, err := os.Stat("/sys/block"); err != nil {
		return
	}
	losses, err := drivers.Compare(drivers.Machine{Sys: os.DirFS("/sys")}, kernel(t, today()), kernel(t, today()))
	require.NoError(t, err)
	require.Empty(t, losses)
}
