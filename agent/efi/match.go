package efi

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spore/agent/blockdev"
)

// Verdict is how well a disk fits a device path.
type Verdict int

// Verdicts, from worse to better.
const (
	// No: the path names other hardware.
	No Verdict = iota
	// Controller: the disk is behind the PCI function, or on the kind of bus, that the path names; whether it is the very
	// disk cannot be told.
	Controller
	// Exact: every node that names hardware fits.
	Exact
)

// Usable says whether the path names hardware at all. Short forms, such as HD(…) alone in options that an operating system
// made, fit each copy of the same image.
func (p Path) Usable() bool {
	for _, n := range p {
		switch n.Kind {
		case kindPCI, kindUSBClass, kindUSBWWID:
			return true
		}
	}
	return false
}

var (
	pciRootName = regexp.MustCompile(`^pci([0-9a-f]{4,}:[0-9a-f]{2})$`)
	pciName     = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:([0-9a-f]{2})\.([0-7])$`)
	usbRootName = regexp.MustCompile(`^usb[0-9]+$`)
	usbName     = regexp.MustCompile(`^[0-9]+-([0-9]+(?:\.[0-9]+)*)$`)
	ataName     = regexp.MustCompile(`^ata[0-9]+$`)
	scsiName    = regexp.MustCompile(`^([0-9]+):[0-9]+:([0-9]+):([0-9]+)$`)
)

// place is where a disk is, from its sysfs path.
type place struct {
	dir     string // the path
	rootUID string // _UID of the PCI root's ACPI device, empty when not known
	pci     []string
	usbRoot string   // directory of the root hub, empty when not on USB
	usb     []string // ports from the root hub on
	ata     string   // directory of the ATA port
	scsi    []string // host, target, LUN
}

func locate(sys fs.FS, disk blockdev.Disk) place {
	p := place{dir: disk.SysPath}
	dir := ""
	for _, name := range strings.Split(disk.SysPath, "/") {
		dir = path.Join(dir, name)
		if pciRootName.MatchString(name) && len(p.pci) == 0 {
			p.rootUID = blockdev.Text(sys, dir+"/firmware_node/uid")
		}
		if m := pciName.FindStringSubmatch(name); m != nil {
			p.pci = append(p.pci, m[1]+"."+m[2])
		}
		if usbRootName.MatchString(name) {
			p.usbRoot = dir
		}
		if m := usbName.FindStringSubmatch(name); m != nil && p.usbRoot != "" {
			p.usb = strings.Split(m[1], ".")
		}
		if ataName.MatchString(name) {
			p.ata = dir
		}
		if m := scsiName.FindStringSubmatch(name); m != nil {
			p.scsi = m[1:]
		}
	}
	return p
}

// Match says how well a disk fits. sys is /sys.
func (p Path) Match(sys fs.FS, disk blockdev.Disk) Verdict {
	at := locate(sys, disk)
	if !p.matchRoot(at) || !p.matchPCI(at) {
		return No
	}
	best := Controller
	usb := Path{}
	for _, n := range p {
		var v Verdict
		switch n.Kind {
		case kindSATA, kindATAPI:
			v = matchATA(sys, n, at)
		case kindSCSI:
			v = matchSCSI(sys, n, at)
		case kindNVMe:
			v = matchNVMe(sys, n, disk)
		case kindSD, kindEMMC:
			v = matchPart(at, "/mmc_host/", Controller)
		case kindUSBClass, kindUSBWWID:
			v = matchPart(at, "/usb", Controller)
		case kindUSB:
			usb = append(usb, n)
			continue
		default:
			continue
		}
		if v == No {
			return No
		}
		best = v
	}
	if len(usb) > 0 {
		return matchUSB(sys, usb, at)
	}
	// virtio-blk has no node of its own behind PCI: the function is the disk.
	if len(at.pci) > 0 && strings.Contains(at.dir, "/virtio") && at.scsi == nil {
		best = Exact
	}
	return best
}

// OnWay says whether the device at sysPath (below /sys) is one of the PCI functions that lead to the path's disk, or is
// behind the last of them: whether its driver is needed to reach the disk.
func (p Path) OnWay(sys fs.FS, sysPath string) bool {
	at := locate(sys, blockdev.Disk{SysPath: sysPath})
	if len(at.pci) == 0 || !p.matchRoot(at) {
		return false
	}
	way := p.functions()
	for i := range min(len(way), len(at.pci)) {
		if at.pci[i] != way[i] {
			return false
		}
	}
	return len(way) > 0
}

// functions are the path's PCI functions, written as in sysfs.
func (p Path) functions() []string {
	var out []string
	for _, n := range p {
		if n.Kind == kindPCI {
			out = append(out, fmt.Sprintf("%02x.%x", n.Data[1], n.Data[0]))
		}
	}
	return out
}

// matchRoot compares the PCI root's UID where both sides know it as a number.
func (p Path) matchRoot(at place) bool {
	for _, n := range p {
		if !n.pciRoot() {
			continue
		}
		uid, err := strconv.ParseUint(at.rootUID, 0, 32)
		return err != nil || uint32(uid) == binary.LittleEndian.Uint32(n.Data[4:])
	}
	return true
}

func (p Path) matchPCI(at place) bool {
	way := p.functions()
	return len(way) == 0 || slices.Equal(way, at.pci)
}

func matchPart(at place, part string, v Verdict) Verdict {
	if strings.Contains(at.dir, part) {
		return v
	}
	return No
}

// matchATA compares the port of the controller, which sysfs counts from 1. Behind a port multiplier, and for the two drives
// on an IDE cable, the target is the second number.
func matchATA(sys fs.FS, n Node, at place) Verdict {
	if at.ata == "" {
		return No
	}
	le := binary.LittleEndian
	port, target := int(le.Uint16(n.Data)), int(le.Uint16(n.Data[2:]))
	if n.Kind == kindATAPI {
		port, target = int(n.Data[0]), int(n.Data[1])
	}
	if n.Kind == kindSATA && target&0x8000 != 0 {
		target = 0 // directly connected
	}
	text := blockdev.Text(sys, at.ata+"/ata_port/"+path.Base(at.ata)+"/port_no")
	if text == "" || at.scsi == nil {
		return Controller
	}
	if text != strconv.Itoa(port+1) || at.scsi[1] != strconv.Itoa(target) {
		return No
	}
	return Exact
}

// plainSCSI are the drivers whose targets and LUNs are the same in firmware and Linux. RAID controllers number as they like.
var plainSCSI = map[string]bool{"Virtio SCSI HBA": true, "virtio_scsi": true, "vmw_pvscsi": true, "storvsc_host_t": true}

func matchSCSI(sys fs.FS, n Node, at place) Verdict {
	if at.scsi == nil {
		return No
	}
	le := binary.LittleEndian
	if at.scsi[1] == strconv.Itoa(int(le.Uint16(n.Data))) && at.scsi[2] == strconv.Itoa(int(le.Uint16(n.Data[2:]))) {
		return Exact
	}
	if plainSCSI[blockdev.Text(sys, "class/scsi_host/host"+at.scsi[0]+"/proc_name")] {
		return No
	}
	return Controller
}

func matchNVMe(sys fs.FS, n Node, disk blockdev.Disk) Verdict {
	if !strings.HasPrefix(disk.Name, "nvme") {
		return No
	}
	if nsid := blockdev.Text(sys, "class/block/"+disk.Name+"/nsid"); nsid != strconv.Itoa(int(binary.LittleEndian.Uint32(n.Data))) {
		return No
	}
	eui := strings.ReplaceAll(strings.ToLower(blockdev.Text(sys, "class/block/"+disk.Name+"/eui")), " ", "")
	want := hex.EncodeToString(n.Data[4:12])
	// Firmware writes the EUI-64 in either byte order, and zeros when there is none.
	if eui == "" || want == strings.Repeat("0", 16) || want == eui || want == reverseHex(eui) {
		return Exact
	}
	return No
}

func reverseHex(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		return ""
	}
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return hex.EncodeToString(b)
}

// matchUSB compares the ports from the root hub on; firmware counts them from 0 and Linux from 1. An xHCI controller is one
// root hub to the firmware and two to Linux, one for each speed, and which half of the firmware's numbers belongs to which
// is not in sysfs: both orders count as a fit.
func matchUSB(sys fs.FS, nodes Path, at place) Verdict {
	if at.usbRoot == "" || len(nodes) != len(at.usb) {
		return No
	}
	for i, n := range nodes[1:] {
		if at.usb[i+1] != strconv.Itoa(int(n.Data[0])+1) {
			return No
		}
	}
	root, err := strconv.Atoi(at.usb[0])
	if err != nil {
		return No
	}
	first := int(nodes[0].Data[0]) + 1
	if first == root {
		return Exact
	}
	others := 0 // ports of the controller's other root hub
	entries, _ := fs.ReadDir(sys, path.Dir(at.usbRoot))
	for _, e := range entries {
		if usbRootName.MatchString(e.Name()) && e.Name() != path.Base(at.usbRoot) {
			ports, _ := strconv.Atoi(blockdev.Text(sys, path.Dir(at.usbRoot)+"/"+e.Name()+"/maxchild"))
			others += ports
		}
	}
	if others > 0 && first == root+others {
		return Exact
	}
	return No
}
