package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/bootinfo"
	"spore/agent/stage1/machineid"
	"spore/agent/stage1/modules"
	"spore/cluster/facts"
)

// maxFacts bounds cluster.json, in bytes.
const maxFacts = 16 << 20

// writeMachineID writes /etc/machine-id into the overlay before systemd could make up one.
func (b *boot) writeMachineID() (string, error) {
	clusterID, err := readClusterID(os.DirFS(bootinfo.ClusterDir))
	if err != nil {
		return "", err
	}
	hw := machineid.Hardware{
		ProductUUID:   blockdev.Text(b.sys, "class/dmi/id/product_uuid"),
		ProductSerial: blockdev.Text(b.sys, "class/dmi/id/product_serial"),
		BoardSerial:   blockdev.Text(b.sys, "class/dmi/id/board_serial"),
		BootDisk:      b.disk.Disk.Serial,
	}
	if !machineid.GoodUUID(hw.ProductUUID) {
		b.loadNetworkDrivers()
		hw.NICs = physicalNICs(b.sys)
	}
	if source, ok := machineid.Choose(hw); ok {
		b.info.MachineIDFrom = source.From
		b.info.MachineID = machineid.Derive(clusterID, source)
	} else {
		random := make([]byte, 16)
		if _, err := rand.Read(random); err != nil {
			return "", err
		}
		b.info.MachineIDFrom = bootinfo.FromChance + " no UUID, MAC or serial number of this machine is usable, so it is another at each boot"
		b.info.MachineID = hex.EncodeToString(random)
	}
	if err := os.WriteFile(sysroot+"/etc/machine-id", []byte(b.info.MachineID+"\n"), 0o444); err != nil {
		return "", err
	}
	return fmt.Sprintf("machine-id %s from %s", b.info.MachineID, b.info.MachineIDFrom), nil
}

func readClusterID(part fs.FS) (string, error) {
	f, err := part.Open(facts.ClusterFile)
	if err != nil {
		return "", fmt.Errorf("cluster part: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("cluster part: %w", err)
	}
	if st.Size() > maxFacts {
		return "", fmt.Errorf("cluster part: %s has %d bytes", facts.ClusterFile, st.Size())
	}
	// Only the one field: the rest, with all members, is the agent's business.
	var c struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(f).Decode(&c); err != nil {
		return "", fmt.Errorf("cluster part: %s: %w", facts.ClusterFile, err)
	}
	if c.ID == "" {
		return "", fmt.Errorf("cluster part: %s has no cluster id", facts.ClusterFile)
	}
	return strings.ToLower(c.ID), nil
}

// loadNetworkDrivers loads the drivers of network cards for their addresses. They are not in the initramfs, but the
// verified root is mounted by now and has them all. Firmware that they want comes from there, too.
func (b *boot) loadNetworkDrivers() {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return
	}
	dir := filepath.Join(sysroot, "usr/lib/modules", unix.ByteSliceToString(uname.Release[:]))
	index, err := modules.ReadIndex(os.DirFS(dir), "pci:", "virtio:d00000001", "vmbus:", "xen:")
	if err != nil {
		b.say(warning, "the DMI product UUID is not usable, and network drivers cannot be loaded for a MAC: %v", err)
		return
	}
	_ = os.Symlink(sysroot+"/usr/lib/firmware", "/lib/firmware")
	loader := modules.NewLoader(index, dir, modules.Insert)
	for _, modalias := range networkModaliases(b.sys) {
		if err := loader.LoadFor(modalias); err != nil {
			b.say(warning, "network card %s: %s", modalias, oneLine(err))
		}
	}
	b.say(notice, "the DMI product UUID is not usable; loaded for the MAC: %s", strings.Join(loader.Loaded(), " "))
}

// networkModaliases are those of PCI functions of class 02 (network) and of virtio network cards.
func networkModaliases(sys fs.FS) []string {
	var out []string
	for _, bus := range []struct{ name, attribute, prefix string }{
		{"pci", "class", "0x02"}, {"virtio", "device", "0x0001"}, {"vmbus", "class_id", "{f8615163-df3e-46c5-913f-f2d2f965ed0e}"}, {"xen", "devtype", "vif"},
	} {
		devices, _ := fs.ReadDir(sys, path.Join("bus", bus.name, "devices"))
		for _, d := range devices {
			dir := path.Join("bus", bus.name, "devices", d.Name())
			if strings.HasPrefix(blockdev.Text(sys, dir+"/"+bus.attribute), bus.prefix) {
				out = append(out, blockdev.Text(sys, dir+"/modalias"))
			}
		}
	}
	return out
}

// physicalNICs are the Ethernet cards whose address is their permanent one; nobody has changed any yet.
func physicalNICs(sys fs.FS) []machineid.NIC {
	var out []machineid.NIC
	cards, _ := fs.ReadDir(sys, "class/net")
	for _, c := range cards {
		dir := "class/net/" + c.Name()
		_, err := fs.Stat(sys, dir+"/device")
		if err != nil || blockdev.Text(sys, dir+"/type") != "1" || blockdev.Text(sys, dir+"/addr_assign_type") != "0" {
			continue
		}
		target, _ := fs.ReadLink(sys, dir)
		out = append(out, machineid.NIC{MAC: blockdev.Text(sys, dir+"/address"), USB: strings.Contains(target, "/usb")})
	}
	return out
}
