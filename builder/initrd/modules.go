package initrd

import (
	"fmt"
	"slices"
	"strings"

	"spore/builder/kmod"
)

// always are the modules that stage1 loads on every machine, whatever its hardware: the verified root, the overlay on
// /etc and the firmware's variables. What they need themselves comes from the kernel's indexes.
var always = []string{"dm-mod", "dm-verity", "squashfs", "overlay"}

// alwaysIfThere are loaded too where the kernel has them; a flavour may have none of them.
var alwaysIfThere = []string{"efivarfs"}

// verityHash is the alias by which dm-verity asks the kernel's crypto API for SHA-256. That request would reach a
// modprobe that the initramfs does not have, so the implementations for the processor are loaded beforehand.
const verityHash = "crypto-sha256"

// hardware are the drivers between the processor and the medium that the image lies on. stage1 loads those whose alias
// the machine shows. A row that a kernel flavour does not have, or has built in, is passed over.
var hardware = []string{
	// virtual machines
	"virtio_pci", "virtio_mmio", "virtio_blk", "virtio_scsi",
	"hv_vmbus", "hv_storvsc", "pci_hyperv", "xen-blkfront", "xen-scsifront", "vmw_pvscsi", "mptspi", "mptsas",
	// what QEMU gives to a machine by name, such as its bundle
	"qemu_fw_cfg",
	// discs and what they hang on
	"nvme", "vmd", "ahci", "ata_piix", "ata_generic", "sd_mod", "sr_mod",
	// what drives for discs hang on in machines without UEFI
	"pata_atiixp", "pata_amd", "pata_via", "pata_jmicron", "sata_nv", "sata_sil", "sata_via",
	// servers' controllers
	"megaraid_sas", "mpt3sas", "hpsa", "aacraid", "smartpqi", "arcmsr", "isci", "mvsas", "mpi3mr",
	// sticks and cards
	"xhci_pci", "ehci_pci", "ohci_pci", "uhci_hcd", "usb-storage", "uas",
	"mmc_block", "sdhci_pci", "sdhci_acpi",
	// an image that is a file; a disc needs no driver for its file system, as its partitions are mapped
	"loop",
}

// common are the drivers of most machines. They lie in the initramfs as they are loaded; all other hardware's are
// compressed, since the kernel unpacks the whole initramfs at each start, and decompresses itself a module that is loaded.
var common = []string{"virtio_blk", "virtio_scsi", "nvme", "ahci", "sd_mod", "xhci_pci", "usb-storage"}

// Names are the modules that an initramfs holds where the kernel has them, besides what they need and what implements
// the hash of the root.
func Names() []string { return slices.Concat(always, alwaysIfThere, hardware, network, watchdogs) }

// Always returns the names of the modules that stage1 has to load on every machine, in no need of order: the list
// "modules" of stage1.json. What is built into this kernel is left out.
func Always(m *kmod.Modules) ([]string, error) {
	mods, err := alwaysModules(m)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(mods))
	for i, mod := range mods {
		out[i] = mod.Name
	}
	return out, nil
}

// alwaysModules is the closure of what is always loaded, in load order; hash implementations come first.
func alwaysModules(m *kmod.Modules) ([]*kmod.Module, error) {
	hashes, known := m.Lookup(verityHash)
	if !known {
		return nil, fmt.Errorf("kernel %s has no SHA-256, which dm-verity needs", m.Version)
	}
	var wanted []string
	for _, h := range hashes {
		mods, err := m.Closure([]string{h}, nil)
		if err != nil {
			return nil, err
		}
		// Drivers of crypto cards answer to the same alias; they are slower to start than the whole boot.
		if strings.HasPrefix(mods[len(mods)-1].Path, "kernel/arch/") {
			wanted = append(wanted, h)
		}
	}
	return m.Closure(append(wanted, always...), alwaysIfThere)
}

// Select returns every module that the initramfs holds, in load order.
func Select(m *kmod.Modules) ([]*kmod.Module, error) {
	first, err := alwaysModules(m)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(first))
	for i, mod := range first {
		names[i] = mod.Name
	}
	return m.Closure(names, hardware)
}

// unpacked are the names of the modules of an initramfs that are not compressed: what is always loaded, common, and what
// they need.
func unpacked(m *kmod.Modules) (map[string]bool, error) {
	first, err := alwaysModules(m)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(first))
	for i, mod := range first {
		names[i] = mod.Name
	}
	mods, err := m.Closure(names, common)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, mod := range mods {
		out[mod.Name] = true
	}
	return out, nil
}

// ListFile is where, in the module directory of a root, the modules of its initramfs are listed: a node that is given
// another root compares them with its disks before it starts it (package drivers of the agent).
const ListFile = "modules.initramfs"

// List is the content of ListFile: the names of modules, sorted, one a line. Drivers of network cards, of which no disk
// has need, are not among them.
func List(selected []*kmod.Module) []byte {
	names := make([]string, len(selected))
	for i, mod := range selected {
		names[i] = mod.Name
	}
	slices.Sort(names)
	return []byte(strings.Join(names, "\n") + "\n")
}
