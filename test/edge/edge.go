// Package edge is the machine that measurements of boots are made with: edge-01 of examples/edge, with one processor and
// 1 GiB, UEFI firmware, a virtio disk and a virtio card.
package edge

import (
	"time"

	"spore/builder/cmd/operator"
	"spore/builder/vm"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki/vault"
)

const (
	// Node is the node, MAC the card by which it is known.
	Node, MAC = "edge-01", "52:54:00:77:00:0b"
	// DiskSize is that of its disk in bytes, larger than the images, so that there is room for state.
	DiskSize = 12 << 30
)

// Bundle makes the node's bundle of secrets, by the configuration in a folder and the unencrypted keys in another.
func Bundle(config, keys string) ([]byte, error) {
	c, report := cluster.LoadDir(config)
	if err := report.Err(); err != nil {
		return nil, err
	}
	shared, nodes := cluster.Facts(c)
	node, err := facts.Find(nodes, Node, config)
	if err != nil {
		return nil, err
	}
	v, err := vault.Open(keys, vault.Keys{})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	return v.Tree.BundleFor(&shared, node, time.Now())
}

// Machine is the machine with a disk, whatever system that holds. Its files are in dir.
func Machine(name, dir, disk string, accel vm.Accel) vm.Config {
	return vm.Config{
		Name: name, Dir: dir, Accel: accel, CPUs: 1,
		Disks: []vm.Disk{{Path: disk, Format: "qcow2", Serial: "DISK0001", BootIndex: 1}},
		NICs:  []vm.NIC{{MAC: MAC, Net: "10.77.0.0/24", DHCPStart: "10.77.0.60"}},
	}
}

// Firmware has the node's bundle, and further words of the kernel's command line.
func Firmware(bundle []byte, arguments ...string) vm.SMBIOS {
	return vm.SMBIOS{
		Serial: "SPORE-BENCH", UUID: "3a5b8f0e-0000-4000-8000-0000000000be",
		Credentials: map[string][]byte{operator.Credential: bundle}, KernelArguments: arguments,
	}
}
