// Package vm drives QEMU for `spore boot` and the end-to-end tests: one Config describes a machine, Start runs it, and
// its serial console is captured line by line with the wall time and the CPU time at which each line came.
//
// It uses QEMU and OVMF as Debian packs them, swtpm and user-mode networking, so that it needs no privilege but for a card
// on a network of the host. It does not build images and knows nothing of what they hold but the status line of
// spore-agent.
package vm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spore/builder/vm/lan"
)

// networkFolder is Config.Network as QEMU sees it, which inherits the open folder: the path of a socket may have 107
// characters only (unix(7)), and that of an output folder has as many as its user likes.
const networkFolder = "/proc/self/fd/3/"

// defaultMemory in MiB is enough for a boot and for roles of a single node.
const defaultMemory = 1024

// Config describes a machine.
type Config struct {
	// Name tells machines apart in messages and file names.
	Name string
	// Dir takes the console log and the firmware's variables; it must exist.
	Dir string
	// Accel is how code runs; see DetectAccel.
	Accel Accel
	// Memory is in MiB; 1024 when 0.
	Memory int
	// CPUs is 1 when 0.
	CPUs int
	// Firmware is UEFI, BIOS or SecureBoot. Vars is a file with the variables that a UEFI firmware begins with; they are
	// empty, and the firmware in setup mode, when it is left out.
	Firmware, Vars string
	// Kernel, Initrd and Append boot without firmware, when Kernel is set.
	Kernel, Initrd, Append string
	// Disks are in the order in which the guest is to find them.
	Disks []Disk
	NICs  []NIC
	// Network is the folder of a network's sockets (package lan) that links with a Name are plugged into.
	Network string
	// Display gives the machine a VGA card, which Screen takes pictures of.
	Display bool
	// SMBIOS is what the machine says about itself.
	SMBIOS SMBIOS
	// TPM is the folder of the machine's TPM 2.0, which swtpm emulates; it is made when it is not there, and the same
	// folder is the same TPM at the next start. The machine has none when it is empty.
	TPM string
	// Watchdog gives the machine a hardware watchdog, which resets it; without it, it has none that does.
	Watchdog bool
	// RTC is the time of the clock at start, in QEMU's form 2006-01-02T15:04:05; the host's when empty.
	RTC string
	// Reboots lets the guest reset itself; otherwise a reset ends QEMU.
	Reboots bool
	// Args are further options of QEMU.
	Args []string
}

// Disk is a disk of the machine.
type Disk struct {
	// Path is the image file, Format raw (when empty) or qcow2.
	Path, Format string
	// USB makes it a memory stick; otherwise it is on Bus.
	USB bool
	// CDROM makes it a disc in a drive, which nothing writes to.
	CDROM bool
	// Bus is what it is attached to: virtio (when empty), scsi, sata or nvme.
	Bus string
	// Serial is what the disk reports, at most 20 characters, on scsi 36.
	Serial string
	// WWN is 0x and 16 hexadecimal digits on scsi; on nvme EUI is an EUI-64 in that form, or UUID is set.
	WWN, EUI, UUID string
	// Vendor and Model are what a scsi disk says that it is, Model also what a sata disk does; QEMU's when empty.
	Vendor, Model string
	// BootIndex orders the firmware's attempts, from 1; 0 leaves the disk out.
	BootIndex int
	// WriteLog records every write in this file (QEMU's blklogwrites driver); it is made anew.
	WriteLog string
	// Errors are places that the disk cannot read or write (QEMU's blkdebug driver).
	Errors []DiskError
}

// DiskError is a place where each request ends with EIO.
type DiskError struct {
	// Write says that writes fail there, else reads do.
	Write bool
	// At is the offset in bytes; requests that touch its sector of 512 bytes fail.
	At int64
}

// NIC is a virtio network card on a user-mode network of its own, with others on one hub, or on a network of the host.
type NIC struct {
	// MAC is the card's; without one there is no card, only the user-mode network of a hub with its links: a gateway for
	// the machines at their other ends. It is not to share a hub with cards of several machines, as it answers for every
	// address that it sees a connection to.
	MAC string
	// Net is the network, such as 10.77.0.0/24; its second address is the gateway and the third the nameserver, where
	// Gateway and Nameserver are empty.
	Net, Gateway, Nameserver string
	// DHCPStart is the address that DHCP gives; Hostname what it says in option 12.
	DHCPStart, Hostname string
	// TFTP is a folder that the gateway serves, and Bootfile the file in it that DHCP names to firmware.
	TFTP, Bootfile string
	// BootIndex orders the firmware's attempts, from 1, as those of disks; 0 leaves the card out.
	BootIndex int
	// Forwards are listeners on the host's loopback.
	Forwards []Forward
	// Hub, from 1, joins the cards with the same number to one network: that of the first of them. 0 is no hub.
	Hub int
	// Links join the card's network with others. A card with Hub has any number of them beside its own network; one
	// without is on its one link alone.
	Links []Link
	// Tap is a TAP device of the host that the card is plugged into, and into nothing else. It must be there, and whoever
	// starts the machine may use it (root, or its owner).
	Tap string
}

// Link is one end of a cable to another machine, or to a program that speaks Ethernet: frames in UDP datagrams between
// ports of the host's loopback, so that either end may be there first or go away. The other end is this one reversed.
type Link struct {
	// Own is the port of this end, Peer that of the other.
	Own, Peer int
	// Name plugs the cable into the switch of Config.Network instead; it is the name of this end's socket there.
	Name string
}

// netdev is the end of the link as a network device of QEMU.
func (l Link) netdev(id string) []string {
	if l.Name != "" {
		return []string{"-netdev", fmt.Sprintf("dgram,id=%s,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s",
			id, networkFolder+l.Name, networkFolder+lan.Socket)}
	}
	return []string{"-netdev", fmt.Sprintf("socket,id=%s,udp=127.0.0.1:%d,localaddr=127.0.0.1:%d", id, l.Peer, l.Own)}
}

// Forward leads a port of the host's loopback to the guest.
type Forward struct {
	// Protocol is tcp or udp.
	Protocol string
	// Guest is the address and port in the guest, such as 10.77.0.11:8883.
	Guest string
}

// scratch is a folder of one start: the sockets, and what QEMU reads once.
type scratch string

func (s scratch) qmp() string      { return filepath.Join(string(s), "qmp") }
func (s scratch) tpm() string      { return filepath.Join(string(s), "tpm") }
func (s scratch) events() string   { return filepath.Join(string(s), "events") }
func (s scratch) debugger() string { return filepath.Join(string(s), "debugger") }
func (s scratch) credential(i int) string {
	return filepath.Join(string(s), fmt.Sprintf("credential-%d", i))
}

// forget removes what QEMU has read: credentials are secrets.
func (s scratch) forget() error {
	for i := 0; ; i++ {
		if err := os.Remove(s.credential(i)); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// commandLine is QEMU's command line; it writes the files that it needs. ports are those of the host for each forward,
// in order.
func (c Config) commandLine(s scratch, ports []int) ([]string, error) {
	args := []string{"-name", c.Name}
	if c.Display {
		args = append(args, "-machine", "q35", "-device", "VGA")
	} else {
		args = append(args, "-machine", "q35,graphics=off")
	}
	if c.Firmware == BIOS {
		c.Accel = c.Accel.withoutArguments() // isolinux reads no SMBIOS
	}
	args = append(args, c.Accel.args()...)
	args = append(args, "-m", strconv.Itoa(cmp.Or(c.Memory, defaultMemory)), "-smp", strconv.Itoa(cmp.Or(c.CPUs, 1)),
		"-nodefaults", "-no-user-config", "-display", "none", "-device", "virtio-rng-pci",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-chardev", "socket,id=qmp,server=on,wait=off,path="+s.qmp(), "-mon", "chardev=qmp,mode=control")
	if !c.Reboots {
		args = append(args, "-no-reboot")
	}
	args = append(args, c.watchdogArgs()...)
	if c.hasDebugger() {
		args = append(args, debuggerArgs(s)...)
	}
	if c.RTC != "" {
		args = append(args, "-rtc", "base="+c.RTC)
	}
	if c.TPM != "" {
		args = append(args, tpmArgs(s.tpm())...)
	}
	boot, err := c.bootArgs()
	if err != nil {
		return nil, err
	}
	args = append(args, boot...)
	for i, d := range c.Disks {
		args = append(args, d.args(i)...)
	}
	hubs := map[int]bool{}
	for i, n := range c.NICs {
		args = append(args, n.args(i, ports, hubs[n.Hub])...)
		hubs[n.Hub] = n.Hub > 0
		ports = ports[len(n.Forwards):]
	}
	if c.Firmware != SecureBoot {
		// A signed image has them itself: the TPM measures what comes from outside, and does not open the state to it.
		c.SMBIOS.KernelArguments = slices.Concat(c.Accel.KernelArguments, c.SMBIOS.KernelArguments)
	}
	smbios, err := c.SMBIOS.args(s)
	if err != nil {
		return nil, err
	}
	args = append(args, smbios...)
	return append(args, c.Args...), nil
}

// watchdogArgs are those of the watchdog. The board has one of its own, which in QEMU before 8.0 does nothing and in
// later ones resets the machine: it does nothing here, so that a machine is the same in all of them.
func (c Config) watchdogArgs() []string {
	args := []string{"-global", "ICH9-LPC.noreboot=true"}
	if c.Watchdog {
		args = append(args, "-device", "i6300esb,id=watchdog", "-action", "watchdog=reset")
	}
	return args
}

// args builds the block graph of a disk: file, format and, where asked for, the drivers that fail and that record
// writes.
func (d Disk) args(i int) []string {
	format := d.Format
	if format == "" {
		format = "raw"
	}
	node := fmt.Sprintf("disk%d", i)
	args := []string{
		"-blockdev", fmt.Sprintf("driver=file,node-name=%s-file,filename=%s%s", node, escape(d.Path), d.readOnly()),
		"-blockdev", fmt.Sprintf("driver=%s,node-name=%s,file=%s-file%s", format, node, node, d.readOnly()),
	}
	if len(d.Errors) > 0 {
		driver := fmt.Sprintf("driver=blkdebug,node-name=%s-errors,image=%s", node, node)
		for j, e := range d.Errors {
			kind := map[bool]string{true: "write", false: "read"}[e.Write]
			driver += fmt.Sprintf(",inject-error.%d.event=none,inject-error.%d.iotype=%s,inject-error.%d.sector=%d", j, j, kind, j, e.At/512)
		}
		args = append(args, "-blockdev", driver)
		node += "-errors"
	}
	if d.WriteLog != "" {
		args = append(args,
			"-blockdev", fmt.Sprintf("driver=file,node-name=%s-logfile,filename=%s", node, escape(d.WriteLog)),
			"-blockdev", fmt.Sprintf("driver=blklogwrites,node-name=%s-log,file=%s,log=%s-logfile,log-sector-size=512", node, node, node))
		node += "-log"
	}
	args, device := d.device(args, i, node)
	if d.Serial != "" && d.Bus != "nvme" {
		device += ",serial=" + escape(d.Serial)
	}
	if d.Bus == "scsi" && len(d.Serial) > maxDeviceID { // QEMU 10 does not cut it itself, as 7.2 does.
		device += ",device_id=" + escape(d.Serial[:maxDeviceID])
	}
	if d.BootIndex > 0 {
		device += ",bootindex=" + strconv.Itoa(d.BootIndex)
	}
	return append(args, "-device", device)
}

// maxDeviceID bounds what a scsi disk says of itself besides its serial number (SPC-4, Device Identification VPD page).
const maxDeviceID = 20

// device is the disk with what it says of itself, behind the controllers that it needs.
func (d Disk) device(args []string, i int, node string) ([]string, string) {
	controller := func(device string) { args = append(args, "-device", device) }
	options := func(device string, keys ...string) string {
		for j := 0; j < len(keys); j += 2 {
			if keys[j+1] != "" {
				device += "," + keys[j] + "=" + escape(keys[j+1])
			}
		}
		return device
	}
	switch {
	case d.USB:
		controller(fmt.Sprintf("qemu-xhci,id=xhci%d", i))
		return args, fmt.Sprintf("usb-storage,bus=xhci%d.0,drive=%s,removable=on", i, node)
	case d.CDROM:
		controller(fmt.Sprintf("ahci,id=cd%d", i))
		return args, fmt.Sprintf("ide-cd,bus=cd%d.0,drive=%s", i, node)
	case d.Bus == "scsi":
		controller(fmt.Sprintf("virtio-scsi-pci,id=scsi%d", i))
		return args, options(fmt.Sprintf("scsi-hd,bus=scsi%d.0,drive=%s", i, node), "wwn", d.WWN, "vendor", d.Vendor, "product", d.Model)
	case d.Bus == "sata":
		controller(fmt.Sprintf("ahci,id=sata%d", i))
		return args, options(fmt.Sprintf("ide-hd,bus=sata%d.0,drive=%s", i, node), "wwn", d.WWN, "model", d.Model)
	case d.Bus == "nvme":
		// The serial number is the controller's, and it must have one.
		controller(options(fmt.Sprintf("nvme,id=nvme%d", i), "serial", cmp.Or(d.Serial, fmt.Sprintf("NVME%d", i))))
		return args, options(fmt.Sprintf("nvme-ns,bus=nvme%d,drive=%s", i, node), "eui64", d.EUI, "uuid", d.UUID)
	}
	device := "virtio-blk-pci,drive=" + node
	if d.WriteLog != "" {
		// QEMU makes one request of up to IOV_MAX pieces, to which the log adds one: that write fails, and leaves a hole in
		// the log.
		device += ",request-merging=off"
	}
	return args, device
}

// readOnly is what is open for reading alone.
func (d Disk) readOnly() string {
	if d.CDROM {
		return ",read-only=on"
	}
	return ""
}

// escape doubles the comma, which would end an option.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// args are those of card i. joins says that an earlier card has made its hub's network.
func (n NIC) args(i int, ports []int, joins bool) []string {
	peer := fmt.Sprintf("net%d", i)
	var args []string
	switch {
	case joins:
	case n.Tap != "":
		args = append(args, "-netdev", fmt.Sprintf("tap,id=%s,ifname=%s,script=no,downscript=no", peer, n.Tap))
	case len(n.Links) > 0 && n.Hub == 0:
		args = append(args, n.Links[0].netdev(peer)...)
	default:
		args = append(args, "-netdev", n.user(i, ports))
	}
	if n.Hub > 0 {
		for j, l := range n.Links {
			link := fmt.Sprintf("link%d-%d", i, j)
			args = append(args, l.netdev(link)...)
			args = append(args, "-netdev", fmt.Sprintf("hubport,id=cable%d-%d,hubid=%d,netdev=%s", i, j, n.Hub, link))
		}
		if !joins {
			args = append(args, "-netdev", fmt.Sprintf("hubport,id=uplink%d,hubid=%d,netdev=%s", i, n.Hub, peer))
		}
		if n.MAC == "" {
			return args
		}
		peer = fmt.Sprintf("port%d", i)
		args = append(args, "-netdev", fmt.Sprintf("hubport,id=%s,hubid=%d", peer, n.Hub))
	}
	// No option ROM: SeaBIOS is not to try the network, and OVMF has a driver of its own.
	device := fmt.Sprintf("virtio-net-pci,id=nic%d,netdev=%s,mac=%s,romfile=", i, peer, n.MAC)
	if n.BootIndex > 0 {
		device += ",bootindex=" + strconv.Itoa(n.BootIndex)
	}
	return append(args, "-device", device)
}

// user is the user-mode network of card i.
func (n NIC) user(i int, ports []int) string {
	net := fmt.Sprintf("user,id=net%d", i)
	if n.Net != "" {
		net += ",net=" + n.Net
	}
	if n.Gateway != "" {
		net += ",host=" + n.Gateway
	}
	if n.Nameserver != "" {
		net += ",dns=" + n.Nameserver
	}
	if n.DHCPStart != "" {
		net += ",dhcpstart=" + n.DHCPStart
	}
	if n.Hostname != "" {
		net += ",hostname=" + n.Hostname
	}
	if n.TFTP != "" {
		net += ",tftp=" + escape(n.TFTP) + ",bootfile=" + escape(n.Bootfile)
	}
	for j, f := range n.Forwards {
		host, port, _ := strings.Cut(f.Guest, ":")
		net += fmt.Sprintf(",hostfwd=%s:127.0.0.1:%d-%s:%s", f.Protocol, ports[j], host, port)
	}
	return net
}
