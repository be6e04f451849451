package omit

// hardware is a class of kernel modules that servers do without.
type hardware struct {
	class string
	why   string
	// paths are below kernel/ of the module directory, each element a pattern as in path.Match: a directory with all below
	// it, or a module without its suffix.
	paths []string
}

// hardwareRules leave out modules. What a module that stays needs stays with it. All that storage, networks over cables,
// keyboards, serial ports, virtual machines, filters of packets and a machine's own health take is in no rule. Consoles are
// drawn by vgacon, efifb and vesafb, which are in the kernel itself.
var hardwareRules = []hardware{
	{"graphics", "no display but the console, which the kernel draws by itself, and no accelerators", []string{
		"drivers/accel", "drivers/gpu", "drivers/video",
	}},
	{"sound", "no sound", []string{
		"drivers/hid/hid-prodikeys", "drivers/slimbus", "drivers/soundwire", "sound",
	}},
	{"media", "no cameras, television, radio or remote controls", []string{
		"drivers/hid/hid-picolcd", "drivers/media", "drivers/usb/image",
	}},
	{"wireless", "no Wi-Fi, mobile network, NFC or radio sensors", []string{
		"drivers/bcma", "drivers/net/ieee802154", "drivers/net/wireless", "drivers/net/wwan", "drivers/nfc", "drivers/ssb",
		"net/6lowpan", "net/ieee802154", "net/mac80211", "net/mac802154", "net/nfc", "net/qrtr", "net/rfkill", "net/wireless",
	}},
	{"bluetooth", "no Bluetooth", []string{"drivers/bluetooth", "net/bluetooth"}},
	{"input", "no joysticks, tablets, touchscreens or mice; keyboards stay", []string{
		"drivers/hid/amd-sfh-hid", "drivers/hid/hid-nintendo", "drivers/hid/hid-playstation", "drivers/hid/hid-sony",
		"drivers/hid/hid-steam", "drivers/hid/hid-wiimote", "drivers/hid/intel-ish-hid", "drivers/hid/surface-hid",
		"drivers/hid/wacom", "drivers/input/gameport", "drivers/input/joystick", "drivers/input/mouse",
		"drivers/input/tablet", "drivers/input/touchscreen",
	}},
	{"sensors", "no sensors of telephones, and no cards for measurements", []string{"drivers/comedi", "drivers/iio"}},
	{"laptops", "no laptops or tablets", []string{
		"drivers/accessibility", "drivers/memstick", "drivers/platform/chrome", "drivers/platform/surface",
		"drivers/platform/x86/*-laptop", "drivers/platform/x86/amd/pmf", "drivers/platform/x86/thinkpad_acpi",
		"drivers/platform/x86/toshiba_*", "drivers/platform/x86/x86-android-tablets", "drivers/power/supply/cros_*",
		"drivers/power/supply/surface_*", "drivers/power/supply/wilco-*", "drivers/rtc/rtc-wilco-ec",
	}},
	{"legacy-networks", "no network of this kind is built any more, and programs without rights could load the protocol", []string{
		"drivers/atm", "drivers/isdn", "drivers/net/arcnet", "drivers/net/fddi", "drivers/net/hamradio", "drivers/net/hippi",
		"drivers/net/plip", "drivers/net/slip", "drivers/net/wan", "drivers/usb/atm", "net/appletalk", "net/atm", "net/ax25",
		"net/batman-adv", "net/dccp", "net/lapb", "net/netrom", "net/phonet", "net/rds", "net/rose", "net/rxrpc", "net/x25",
	}},
	{"legacy-filesystems", "no disk of a server has this file system", []string{
		"fs/adfs", "fs/affs", "fs/afs", "fs/bcachefs", "fs/befs", "fs/bfs", "fs/coda", "fs/ecryptfs", "fs/efs", "fs/freevxfs", "fs/hfs",
		"fs/hfsplus", "fs/hpfs", "fs/jffs2", "fs/jfs", "fs/minix", "fs/nilfs2", "fs/ocfs2", "fs/omfs", "fs/orangefs", "fs/qnx4",
		"fs/qnx6", "fs/reiserfs", "fs/romfs", "fs/sysv", "fs/ubifs", "fs/ufs", "fs/vboxsf",
	}},
	{"gadgets", "no machine is a device on another one's USB", []string{"drivers/usb/dwc2", "drivers/usb/dwc3", "drivers/usb/gadget"}},
	{"firewire", "no FireWire, which gives a plugged device the memory", []string{"drivers/firewire", "drivers/target/sbp"}},
	{"staging", "drivers that the kernel's developers call unfinished", []string{"drivers/staging"}},
}

// Hardware lists the classes of modules.
func Hardware() []string {
	var out []string
	for _, r := range hardwareRules {
		out = append(out, r.class)
	}
	return out
}
