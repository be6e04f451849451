package drivers

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"spore/agent/blockdev"
	"spore/agent/stage1/modules"
)

// Bounds on what sysfs may show: a large server has a few thousand devices, and disks lie less than ten levels deep.
const (
	maxDevices = 1 << 16
	maxDepth   = 64
	maxStack   = 16
)

// needed says what needs a device.
type needed struct {
	uses map[string]bool
	// refuses says that the machine cannot do without it, boot that it has to work in the initramfs.
	refuses, boot bool
}

func (n *needed) words() []string { return slices.Sorted(maps.Keys(n.uses)) }

// survey collects the devices of a machine by their directories below /sys.
type survey struct {
	sys     fs.FS
	devices map[string]*needed
	// mappings are device-mapper devices on the way to a use.
	mappings []mapping
}

// use is one reason for devices to be needed.
type use struct {
	text          string
	refuses, boot bool
}

// mapping is a device-mapper device and the module of its target.
type mapping struct {
	dir, module string
	use         use
}

func (s *survey) lookAt(m Machine) error {
	if err := s.everyDevice(); err != nil {
		return err
	}
	used := map[string]bool{}
	for _, d := range m.devices() {
		if d.node == "" {
			continue
		}
		name, err := s.blockName(d.node)
		if err != nil {
			return err
		}
		s.block(name, use{d.what + " " + d.node, true, d.boot}, used, 0)
	}
	disks, err := blockdev.List(s.sys)
	if err != nil {
		return err
	}
	for _, d := range disks {
		if !used[d.Name] {
			s.block(d.Name, use{text: "the disk /dev/" + d.Name + ", which this node does not use"}, map[string]bool{}, 0)
		}
	}
	s.cards()
	s.tpms(m.TPM)
	return nil
}

// device is a block device that the node uses.
type device struct {
	node, what string
	boot       bool
}

func (m Machine) devices() []device {
	out := []device{{m.Boot, "the boot disk", true}, {m.State, "the disk with the node's state", false}}
	for _, node := range m.Data {
		out = append(out, device{node, "the data disk", false})
	}
	return out
}

// everyDevice notes all devices of all buses that have a driver, with nothing that needs them.
func (s *survey) everyDevice() error {
	buses, err := fs.ReadDir(s.sys, "bus")
	if err != nil {
		return err
	}
	for _, bus := range buses {
		dir := path.Join("bus", bus.Name(), "devices")
		entries, _ := fs.ReadDir(s.sys, dir) // One without devices has no such directory.
		for _, e := range entries {
			if len(s.devices) >= maxDevices {
				return fmt.Errorf("there are more than %d devices", maxDevices)
			}
			if real, ok := s.follow(path.Join(dir, e.Name())); ok && s.exists(real+"/driver") {
				s.at(real)
			}
		}
	}
	return nil
}

func (s *survey) at(dir string) *needed {
	n := s.devices[dir]
	if n == nil {
		n = &needed{uses: map[string]bool{}}
		s.devices[dir] = n
	}
	return n
}

// way notes that a use needs all devices from dir upwards that have a driver.
func (s *survey) way(dir string, u use) {
	for range maxDepth {
		if dir == "devices" || dir == "." || dir == "/" {
			return
		}
		if s.exists(dir + "/driver") {
			n := s.at(dir)
			n.uses[u.text] = true
			n.refuses, n.boot = n.refuses || u.refuses, n.boot || u.boot
		}
		dir = path.Dir(dir)
	}
}

// blockName is the kernel's name of a device node: that of /dev/mapper/NAME says device-mapper.
func (s *survey) blockName(node string) (string, error) {
	name := path.Base(node)
	if path.Dir(node) != "/dev/mapper" {
		if !s.exists("class/block/" + name) {
			return "", fmt.Errorf("the kernel knows no block device %.64q", node)
		}
		return name, nil
	}
	entries, _ := fs.ReadDir(s.sys, "block")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "dm-") && s.text("block/"+e.Name()+"/dm/name") == name {
			return e.Name(), nil
		}
	}
	return "", fmt.Errorf("device-mapper knows no %.64q", node)
}

// block notes what a block device needs, and marks it, the disk that it is a partition of, and what it is stacked on in
// used.
func (s *survey) block(name string, u use, used map[string]bool, depth int) {
	dir, ok := s.follow("class/block/" + name)
	if !ok || depth > maxStack {
		return
	}
	used[name] = true
	if s.exists(dir + "/partition") {
		used[path.Base(path.Dir(dir))] = true
	}
	if m := mappingModule(s.text(dir + "/dm/uuid")); m != "" {
		s.mappings = append(s.mappings, mapping{dir, m, u})
	}
	below, _ := fs.ReadDir(s.sys, dir+"/slaves")
	for _, e := range below {
		s.block(e.Name(), u, used, depth+1)
	}
	for _, d := range s.controllers(dir) {
		s.way(d, u)
	}
}

// mappingModule is the module that device-mapper needs for a device, by the prefix of its UUID (dm-ioctl;
// libcryptsetup).
func mappingModule(uuid string) string {
	switch kind, _, _ := strings.Cut(uuid, "-"); kind {
	case "CRYPT":
		return "dm_crypt"
	case "LVM", "part":
		return "dm_mod"
	}
	return ""
}

// controllers are where the ways of a block device begin: its own directory, and for a namespace that several NVMe
// controllers show those of the controllers (Linux, drivers/nvme/host/multipath.c).
func (s *survey) controllers(dir string) []string {
	const virtual = "devices/virtual/nvme-subsystem/"
	rest, ok := strings.CutPrefix(dir, virtual)
	if !ok {
		return []string{dir}
	}
	subsystem, _, _ := strings.Cut(rest, "/")
	var out []string
	entries, _ := fs.ReadDir(s.sys, virtual+subsystem)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasPrefix(e.Name(), "nvme") {
			continue
		}
		if real, ok := s.follow(virtual + subsystem + "/" + e.Name()); ok {
			out = append(out, real)
		}
	}
	return out
}

// cards notes the network cards. One that has a carrier is in use, as a member of a bond too.
func (s *survey) cards() {
	entries, _ := fs.ReadDir(s.sys, "class/net")
	for _, e := range entries {
		dir, ok := s.follow("class/net/" + e.Name())
		if !ok || !s.exists(dir+"/device") {
			continue // a bond, a VLAN, a bridge
		}
		u := use{text: "the network card " + e.Name(), refuses: s.text(dir+"/carrier") == "1"}
		if !u.refuses {
			u.text += ", which is down"
		}
		s.way(dir, u)
	}
}

// tpms notes the TPM; without it secrets that are sealed to it cannot be opened.
func (s *survey) tpms(sealed bool) {
	entries, _ := fs.ReadDir(s.sys, "class/tpm")
	for _, e := range entries {
		if dir, ok := s.follow("class/tpm/" + e.Name()); ok {
			text := "the TPM"
			if sealed {
				text += ", to which the node's secrets are sealed"
			}
			s.way(dir, use{text: text, refuses: sealed})
		}
	}
}

// missingMappings lists the targets of device-mapper that a new kernel does not have.
func (s *survey) missingMappings(running, fresh *modules.Index) []Loss {
	byDir := map[string]*Loss{}
	for _, m := range s.mappings {
		if !running.Has(m.module) || fresh.Has(m.module) {
			continue
		}
		if byDir[m.dir] == nil {
			byDir[m.dir] = &Loss{Device: m.dir, Driver: m.module}
		}
		l := byDir[m.dir]
		l.Uses, l.Refuses = append(l.Uses, m.use.text), l.Refuses || m.use.refuses
	}
	var out []Loss
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		l := *byDir[dir]
		slices.Sort(l.Uses)
		l.Uses = slices.Compact(l.Uses)
		out = append(out, l)
	}
	return out
}

// driver is the module that drives a device; empty where no module is known.
func (s *survey) driver(dir string) string {
	target, ok := s.follow(dir + "/driver")
	if !ok {
		return ""
	}
	module, ok := s.follow(target + "/module")
	if !ok {
		return ""
	}
	return modules.Name(module)
}

// follow is where a symbolic link leads, as a path below /sys. The kernel makes them relative, and never one to
// another.
func (s *survey) follow(link string) (string, bool) {
	target, err := fs.ReadLink(s.sys, link)
	if err != nil || path.IsAbs(target) {
		return "", false
	}
	real := path.Join(path.Dir(link), target)
	return real, fs.ValidPath(real)
}

// exists looks at a name itself: links of sysfs need not be followed for it.
func (s *survey) exists(name string) bool {
	_, err := fs.Lstat(s.sys, name)
	return err == nil
}

func (s *survey) text(name string) string { return blockdev.Text(s.sys, name) }
